"""The kinds of messages that nodes exchange among themselves, beside those of algorithms.

Pure. An algorithm neither sends nor gets them.
"""

from __future__ import annotations

MODEL = "model"
"""The kind of a message that carries a model, or a part of one. Algorithms use it, too."""
FRAGMENT = "fragment"
"""The kind of a message that carries one of several parts of a model: its field `part` is the number. Algorithms use
it, too."""

PART = "part"
"""The field that distinguishes the parts of a model: messages of different parts never replace each other."""

GOODBYE = "goodbye"
"""The kind of the last message of a node that leaves in good order."""
AGAIN = "send-again"
"""The kind of a message by which a node that came back asks for the model of a round, or of a later one."""
SENT_AGAIN = "sent-again"
"""The kind of an answer to that: a model, which may be here already."""
FRAGMENT_SENT_AGAIN = "fragment-sent-again"
"""The kind of the same answer with a fragment."""
PAST = "rounds-past"
"""The kind of another answer: no model or fragment of this round or an earlier one comes any more."""
ASK_PEERS = "ask-peers"
"""The kind of a request to the peer sampler, for the neighbours of a round."""
PEERS = "peers"
"""The kind of its answer."""
SHUFFLE_VIEWS = "shuffle-views"
"""The kind of a message by which a node sends a part of its view of the others, and asks for a part of another one."""
VIEWS_SHUFFLED = "views-shuffled"
"""The kind of the answer to that."""

NEVER_SENT = "never-sent"
"""The kind of no message: a wait for it ends when the other node has finished or left."""

RESERVED = frozenset(
    {GOODBYE, AGAIN, SENT_AGAIN, FRAGMENT_SENT_AGAIN, PAST, ASK_PEERS, PEERS, SHUFFLE_VIEWS, VIEWS_SHUFFLED}
)

REPEATED = {MODEL: SENT_AGAIN, FRAGMENT: FRAGMENT_SENT_AGAIN}
"""What nodes that come back can ask for, and the kinds of the answers."""
ANSWERS = {answer: kind for kind, answer in REPEATED.items()}
"""The kinds of what was sent again, by the kinds of the answers."""


def check_kind(kind: str) -> None:
    """Raises ValueError for a kind that nodes use among themselves."""
    if kind in RESERVED:
        raise ValueError(f"`{kind}` is a kind of message that nodes use among themselves: give yours another name")
