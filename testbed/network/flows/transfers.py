"""What goes into the fluid model and what comes out: transfers, and the news about them.

Plain values; touches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class Transfer:
    """One message on its way; equal only to itself."""

    origin: int
    dest: int
    size_bytes: int
    number: int
    """Its place among the messages from this origin to this destination."""
    kept_bytes: int = field(init=False, repr=False)
    """How much of it leaves: all, unless it was cancelled."""
    has_left: bool = field(default=False, init=False, repr=False)
    """That has left the sender."""
    is_cancelled: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        self.kept_bytes = self.size_bytes


@dataclass(frozen=True, slots=True)
class Sent:
    """The last byte left the sender, which may think of the next message."""

    transfer: Transfer


@dataclass(frozen=True, slots=True)
class Delivered:
    """The last byte reached the receiver's application."""

    transfer: Transfer


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The sender knows that all of it arrived."""

    transfer: Transfer


News = Sent | Delivered | Acknowledged
