"""How a run ended: what every runtime gives back."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.control.progress import Progress
from testbed.errors import ExitCode
from testbed.records import Failure

FINISHED, TIME, ACCURACY, FAILED, INTERRUPTED = "finished", "time", "accuracy", "failed", "interrupted"
"""Why a run is over."""
ENDED_WELL = (FINISHED, TIME, ACCURACY)


@dataclass(frozen=True)
class NodeFailure:
    """A node that could not go on."""

    node: str
    failure: Failure


@dataclass(frozen=True)
class Outcome:
    """`reason` is one of those above."""

    reason: str
    t: float
    finished: int
    failures: tuple[NodeFailure, ...]
    last: Progress | None = None
    """How far it was; None when it never began."""
    broken: tuple[str, ...] = ()
    """Processes of the testbed's own that were gone before the run was over, in words."""
    overloaded: tuple[str, ...] = ()
    """Why its numbers are not those of what was asked for; nothing when the run is valid."""
    remarks: tuple[str, ...] = ()
    """What else to know about its numbers."""

    @property
    def exit_code(self) -> ExitCode:
        """What a command ends with that has seen it to its end."""
        if self.reason == INTERRUPTED:
            return ExitCode.INTERRUPTED
        if self.broken and self.last is None:  # what happened to nodes came of that
            return ExitCode.NOT_STARTED
        if self.failures or self.broken:
            return ExitCode.NODE_FAILED
        return ExitCode.NOT_AS_ASKED if self.overloaded else ExitCode.OK
