"""The kinds of messages that nodes exchange among themselves, beside those of algorithms.

Pure. An algorithm neither sends nor gets them.
"""

from __future__ import annotations

MODEL = "model"
"""The kind of a message that carries a model, or a part of one. Algorithms use it, too."""

GOODBYE = "goodbye"
"""The kind of the last message of a node that leaves in good order."""
AGAIN = "send-again"
"""The kind of a message by which a node that came back asks for the model of a round, or of a later one."""
SENT_AGAIN = "sent-again"
"""The kind of an answer to that: a model, which may be here already."""
PAST = "rounds-past"
"""The kind of another answer: no model of this round or an earlier one comes any more."""
ASK_PEERS = "ask-peers"
"""The kind of a request to the peer sampler, for the neighbours of a round."""
PEERS = "peers"
"""The kind of its answer."""

RESERVED = frozenset({GOODBYE, AGAIN, SENT_AGAIN, PAST, ASK_PEERS, PEERS})


def check_kind(kind: str) -> None:
    """Raises ValueError for a kind that nodes use among themselves."""
    if kind in RESERVED:
        raise ValueError(f"`{kind}` is a kind of message that nodes use among themselves: give yours another name")
