"""What a command ends with that has seen a run to its end."""

from __future__ import annotations

import pytest

from testbed.control.outcome import NodeFailure, Outcome
from testbed.control.progress import Progress
from testbed.errors import ExitCode
from testbed.records import Failure

LAST = Progress(3.0, 5, 10, None, 2, 2, None, None, 100)
FAILED = (NodeFailure("a.1", Failure("no")),)
GONE = ("the fabric is gone",)
LATE = ("late packets",)


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (Outcome("finished", 3.0, 3, (), LAST), ExitCode.OK),
        (Outcome("time", 3.0, 3, (), LAST), ExitCode.OK),
        (Outcome("finished", 3.0, 3, (), LAST, overloaded=LATE), ExitCode.NOT_AS_ASKED),
        (Outcome("failed", 3.0, 2, FAILED, LAST), ExitCode.NODE_FAILED),
        (Outcome("failed", 3.0, 2, FAILED, LAST, overloaded=LATE), ExitCode.NODE_FAILED),
        (Outcome("failed", 3.0, 0, (), LAST, broken=GONE), ExitCode.NODE_FAILED),
        (Outcome("failed", 0.0, 0, (), None, broken=GONE), ExitCode.NOT_STARTED),
        (Outcome("failed", 0.0, 0, FAILED, None, broken=GONE), ExitCode.NOT_STARTED),
        (Outcome("interrupted", 3.0, 0, FAILED, LAST, broken=GONE, overloaded=LATE), ExitCode.INTERRUPTED),
    ],
)
def test_the_exit_code_is_that_of_the_worst(outcome: Outcome, code: ExitCode) -> None:
    assert outcome.exit_code is code
