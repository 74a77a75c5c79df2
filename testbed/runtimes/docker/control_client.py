"""A line to control of a run that goes on: kept from question to question, as each new one may cost a process there.

Takes where control is reached, gives its answers; connects when it is asked, and anew after what broke.
"""

from __future__ import annotations

from contextlib import ExitStack

from testbed.control.commands import Command, Conversation, Done, Seen, conversation
from testbed.doors import Door


class ControlClient:
    """Of one run."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._held = ExitStack()
        self._conversation: Conversation | None = None

    def ask(self, command: Command) -> Done | Seen:
        """The first answer; raises TestbedError where there is none."""
        try:
            if self._conversation is None:
                self._conversation = self._held.enter_context(conversation(self._door))
            return self._conversation.ask(command)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """May be asked again."""
        self._conversation = None
        self._held.close()
