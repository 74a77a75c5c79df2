"""What is said before there is time to load what reads and writes messages: these very bytes, and nothing else.

Pure, and imports nothing: for processes that many others wait for. Each is what `protocol` makes of one message, which
a test compares; whatever else is heard is left to it.
"""

from __future__ import annotations

MAX_MESSAGE_BYTES = 64 * 1024
"""Of any message."""
CAME = b"\x81\xa4type\xa4came"
"""The first process of a learner's container to control: it is there."""
DO_ATTACH = b"\x82\xa4type\xa2do\xa4what\xa6attach"
"""Control to it: it gets its network, so as to be ready sooner."""
ATTACH = b"\x81\xa4type\xa6attach"
"""A node to the fabric, with the descriptor of its device."""
ATTACHED = b"\x81\xa4type\xa8attached"
"""The fabric to the node: it carries its packets now."""
