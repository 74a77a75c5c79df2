"""Constant messages of processes that start, exchanged before the message code is loaded.

Pure, and imports nothing: for processes that many others wait for. Each constant equals the encoding by `protocol`,
which a test checks. All other messages are read with `protocol`.
"""

from __future__ import annotations

MAX_MESSAGE_BYTES = 64 * 1024
"""Limit of any message."""
CAME = b"\x81\xa4type\xa4came"
"""From the first process of a learner's container to control: it has started."""
DO_ATTACH = b"\x82\xa4type\xa2do\xa4what\xa6attach"
"""From control to that process: attach its network now."""
ATTACH = b"\x81\xa4type\xa6attach"
"""From a node to the fabric, with the descriptor of its TUN device."""
ATTACHED = b"\x81\xa4type\xa8attached"
"""From the fabric to the node: its packets are carried now."""
