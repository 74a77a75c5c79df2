"""What happens in the process that plans comes out as if there were no process."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from typing import NoReturn

import pytest

from testbed.errors import CouldNotStart, ExitCode, InvalidInput, TestbedError, error
from testbed.runtimes.plan_process import Planned, planned_apart
from testbed.runtimes.planning import Talk
from testbed.topologies.load import load_bytes
from testbed.topologies.model import Topology
from testbed.topologies.source import Form
from tests.engines.world import pair

pytestmark = pytest.mark.processes

FOUND = [error("a-code", "what is wrong", "how to mend it")]


@pytest.fixture(scope="module")
def topology() -> Topology:
    return load_bytes(pair().encode(), Form.YAML, "test").require()


def raising(problem: BaseException) -> Callable[[Talk], Planned]:
    def make(talk: Talk) -> NoReturn:
        talk.say("at work")
        talk.warn("warning: slow")
        talk.findings("a.xml", FOUND)
        raise problem

    return make


def killed(talk: Talk) -> NoReturn:  # noqa: ARG001
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def test_what_it_says_and_its_errors_come_out(topology: Topology) -> None:
    said: list[object] = []
    talk = Talk(said.append, said.append, lambda file, findings: said.append((file, [*findings])))
    with pytest.raises(TestbedError, match="refused") as refused:
        planned_apart(raising(CouldNotStart("refused", "do this")), talk, topology)
    assert (refused.value.exit_code, refused.value.hint) == (ExitCode.NOT_STARTED, "do this")
    assert said == ["at work", "warning: slow", ("a.xml", FOUND)]


@pytest.mark.parametrize(
    ("make", "expected", "exit_code"),
    [
        (raising(InvalidInput("a.xml", FOUND)), InvalidInput, ExitCode.INVALID_INPUT),
        (raising(KeyError("a mistake of ours")), TestbedError, ExitCode.BUG),
        (raising(OSError("a library's own")), TestbedError, ExitCode.BUG),
        (killed, CouldNotStart, ExitCode.NOT_STARTED),
    ],
)
def test_every_way_to_fail_has_its_exit_code(
    make: Callable[[Talk], Planned], expected: type[TestbedError], exit_code: ExitCode, topology: Topology
) -> None:
    with pytest.raises(expected) as failed:
        planned_apart(make, Talk(print, print, print), topology)
    assert failed.value.exit_code == exit_code


def test_an_error_of_the_kernel_keeps_its_number_and_file(topology: Topology) -> None:
    with pytest.raises(PermissionError) as denied:
        planned_apart(
            raising(PermissionError(errno.EACCES, "Permission denied", "a.txt")), Talk(print, print, print), topology
        )
    assert denied.value.filename == "a.txt"
