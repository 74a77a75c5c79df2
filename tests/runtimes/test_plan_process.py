"""Planning in a process of its own looks from outside as if there were none: what it says, gives and raises."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

import pytest

from testbed.errors import CouldNotStart, ExitCode, InvalidInput, PreflightRefused, TestbedError, error, warning
from testbed.plan.model import RunPlan
from testbed.runtimes.plan_process import Planned, planned_apart
from testbed.runtimes.planning import Talk
from testbed.runtimes.registry import named
from tests.runtimes.sim_runs import plan_of, star

pytestmark = pytest.mark.processes
WRONG = error("code", "no such class", "write one")


def apart(make: Callable[[Talk], Planned], plan: RunPlan) -> tuple[Planned, list[object]]:
    heard: list[object] = []
    talk = Talk(
        heard.append, lambda text: heard.append(("warned", text)), lambda file, found: heard.append((file, *found))
    )
    return planned_apart(make, talk, plan.load_topology()), heard


def failing(problem: Exception) -> None:
    plan = plan_of(star(2))

    def make(_: Talk) -> Planned:
        raise problem

    apart(make, plan)


def test_the_plan_and_all_words_come_out_in_order() -> None:
    plan = plan_of(star(3))

    def make(talk: Talk) -> Planned:
        talk.say("first")
        talk.findings("a.yaml", iter([warning("odd", "two\nlines")]))
        talk.warn("last")
        return named("sim"), plan

    (runtime, made), heard = apart(make, plan)
    assert (runtime.name, made) == ("sim", plan)
    assert made.load_topology() is plan.load_topology()
    assert heard == ["first", ("a.yaml", warning("odd", "two\nlines")), ("warned", "last")]


def test_what_is_imported_there_is_not_here() -> None:
    plan = plan_of(star(2))

    def make(talk: Talk) -> Planned:
        import this  # noqa: F401 - a module that nothing else imports

        talk.say(str("this" in sys.modules))
        return named("sim"), plan

    _, heard = apart(make, plan)
    assert (heard[-1], "this" in sys.modules) == ("True", False)


def test_errors_keep_their_words_and_exit_codes() -> None:
    with pytest.raises(TestbedError) as refused:
        failing(PreflightRefused("too small", "take fewer"))
    assert (refused.value.message, refused.value.hint, refused.value.exit_code) == ("too small", "take fewer", 4)
    with pytest.raises(InvalidInput) as wrong:
        failing(InvalidInput("b.yaml", [WRONG]))
    assert (wrong.value.file, wrong.value.findings, wrong.value.exit_code) == ("b.yaml", (WRONG,), 3)
    with pytest.raises(FileNotFoundError) as missing:
        failing(FileNotFoundError(2, "No such file or directory", "c.yaml"))
    assert missing.value.filename == "c.yaml"


def test_names_of_files_need_not_be_text() -> None:
    name = os.fsdecode(b"d\xff.yaml")
    plan = plan_of(star(2))

    def make(talk: Talk) -> Planned:
        talk.say(name)
        return named("sim"), plan

    assert apart(make, plan)[1] == [name]
    with pytest.raises(TestbedError) as refused:
        failing(PreflightRefused(f"cannot write {name}"))
    assert (refused.value.message, refused.value.exit_code) == (f"cannot write {name}", 4)
    with pytest.raises(FileNotFoundError) as missing:
        failing(FileNotFoundError(2, "No such file or directory", name))
    assert missing.value.filename == name


@pytest.mark.parametrize("problem", [ZeroDivisionError("of ours"), OSError("of a library, not of the kernel")])
def test_a_bug_shows_its_traceback(problem: Exception, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TestbedError) as bug:
        failing(problem)
    assert bug.value.exit_code is ExitCode.BUG
    assert f"{type(problem).__name__}: {problem}" in capfd.readouterr().err


def test_a_process_that_is_killed_is_an_error() -> None:
    plan = plan_of(star(2))

    def make(_: Talk) -> Planned:
        os.kill(os.getpid(), signal.SIGKILL)
        return named("sim"), plan

    with pytest.raises(CouldNotStart, match="was killed"):
        apart(make, plan)
