"""Totals of bytes and messages, as journals have them.

Takes sizes of messages, gives counts; touches nothing.
"""

from __future__ import annotations

from testbed.node.messages import Message
from testbed.records import Count


class Tally:
    """Totals of bytes and messages."""

    __slots__ = ("control", "messages", "metadata", "payload")

    def __init__(self) -> None:
        self.payload = self.metadata = self.control = self.messages = 0

    def add(self, size: Count) -> None:
        self.payload += size.payload
        self.metadata += size.metadata
        self.control += size.control
        self.messages += size.messages

    def take_back(self, message: Message, unsent: int) -> None:
        """Subtracts the unsent bytes of a message. They are its last ones, and the payload comes last."""
        size = message.size
        payload = min(unsent, size.payload)
        self.payload -= payload
        if message.payload:
            self.metadata -= unsent - payload
        else:
            self.control -= unsent - payload

    def count(self) -> Count:
        return Count(self.payload, self.metadata, self.control, self.messages)

    def since(self, told: Count) -> Count:
        """What has been added to what was told of; nothing as long as less has left, since messages were taken back."""
        return Count(
            max(0, self.payload - told.payload),
            max(0, self.metadata - told.metadata),
            max(0, self.control - told.control),
            max(0, self.messages - told.messages),
        )
