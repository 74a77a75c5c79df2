"""Processes of nodes that a test has started by itself."""

from __future__ import annotations

from testbed.runtimes.processes.local_backend import LocalProcesses


class Unforked(LocalProcesses):
    """Whatever is to start, does not."""

    def start(self, rank: int, rejoin: str | None, first_round: int) -> None:
        pass
