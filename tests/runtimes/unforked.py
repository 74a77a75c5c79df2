"""Processes of nodes that a test has started by itself."""

from __future__ import annotations

from testbed.runtimes.local.local_ground import LocalProcesses


class Unforked(LocalProcesses):
    """Whatever is to start, does not."""

    def start(self, rank: int, rejoin: str | None, first_round: int) -> None:
        pass
