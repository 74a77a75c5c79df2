"""Input and output of the fluid model: transfers, and news about them.

Plain values; touches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class Transfer:
    """A message under way; equal only to itself."""

    origin: int
    dest: int
    size_bytes: int
    number: int
    """Its number among the messages from this origin to this destination."""
    kept_bytes: int = field(init=False, repr=False)
    """Bytes of it that leave: all, unless it was cancelled."""
    has_left: bool = field(default=False, init=False, repr=False)
    """Whether those have left the sender."""
    is_cancelled: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        self.kept_bytes = self.size_bytes


@dataclass(frozen=True, slots=True)
class Sent:
    """The last byte has left the sender."""

    transfer: Transfer


@dataclass(frozen=True, slots=True)
class Delivered:
    """The last byte has reached the receiver's application."""

    transfer: Transfer


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The sender knows that all bytes have arrived."""

    transfer: Transfer


News = Sent | Delivered | Acknowledged
