"""Makes a plan in a process of its own, with which everything goes that only planning needs, such as torch.

Takes a function that makes a plan, gives what it gives; touches a process. The command that leads a run would else keep
150 MiB for as long as the run goes on. What is said meanwhile, and errors, come out here as if there were no process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from functools import partial
from typing import BinaryIO, Union

import msgspec

from testbed.errors import CouldNotStart, ExitCode, Finding, InvalidInput, TestbedError
from testbed.node.training_process import fork_worker
from testbed.plan.files import plan_in, to_text
from testbed.plan.model import RunPlan
from testbed.runtimes.planning import Talk
from testbed.runtimes.registry import named
from testbed.runtimes.runtime import Runtime
from testbed.topologies.model import Topology

Planned = tuple[Runtime, RunPlan]


class _News(msgspec.Struct, frozen=True, tag=True):
    """One line of the pipe from the process."""


class _Said(_News, frozen=True):
    text: str


class _Warned(_News, frozen=True):
    text: str


class _Found(_News, frozen=True):
    file: str
    findings: tuple[Finding, ...]


class _Made(_News, frozen=True):
    runtime: str
    plan: str


class _Wrong(_News, frozen=True):
    """A TestbedError; with findings, InvalidInput."""

    message: str
    hint: str
    exit_code: int
    file: str = ""
    findings: tuple[Finding, ...] = ()


class _Denied(_News, frozen=True):
    """An OSError of the kernel's."""

    number: int
    reason: str
    file: str | None


class _Failed(_News, frozen=True):
    """Any other exception, as its traceback."""

    trace: str


_AnyNews = Union[_Said, _Warned, _Found, _Made, _Wrong, _Denied, _Failed]  # noqa: UP007 - read at run time


class _PlanningFailed(TestbedError):
    """An error of the process, with its exit code."""

    def __init__(self, told: _Wrong) -> None:
        super().__init__(told.message, told.hint)
        self.exit_code = ExitCode(told.exit_code)


def planned_apart(make: Callable[[Talk], Planned], talk: Talk, topology: Topology) -> Planned:
    """Runs `make` in a forked process. `topology` is the plan's, so that it need not be parsed again."""
    reading, writing = os.pipe()
    with open(reading, "rb") as told:
        try:
            pid = fork_worker(partial(_work, make, reading, writing))
        except OSError as problem:
            raise CouldNotStart(f"cannot start the process that plans: {problem.strerror or problem}") from None
        finally:
            os.close(writing)
        try:
            runtime, plan = _made(told, talk)
        finally:
            os.kill(pid, signal.SIGKILL)  # it is over, or the user has interrupted this process
            os.waitpid(pid, 0)
    return runtime, plan.with_parsed(topology)


def _made(told: BinaryIO, talk: Talk) -> Planned:
    for each in told:
        match msgspec.convert(json.loads(each), _AnyNews):
            case _Said(text):
                talk.say(text)
            case _Warned(text):
                talk.warn(text)
            case _Found(file, findings):
                talk.findings(file, findings)
            case _Made(runtime, plan):
                return named(runtime), plan_in(plan)
            case _Wrong(file=file, findings=findings) if file:
                raise InvalidInput(file, findings)
            case _Wrong() as wrong:
                raise _PlanningFailed(wrong)
            case _Denied(number, reason, file):
                raise OSError(number, reason, file)
            case _Failed(trace):
                sys.stderr.write(trace)
                raise _PlanningFailed(_Wrong("the plan could not be made: see above", "", ExitCode.BUG))
    raise CouldNotStart("the process that plans was killed")


def _work(make: Callable[[Talk], Planned], reading: int, writing: int) -> None:
    os.close(reading)
    pipe = open(writing, "wb")  # noqa: SIM115 - until the process ends

    def tell(news: _News) -> None:
        text = json.dumps(msgspec.to_builtins(news))  # not msgspec's own JSON: names of files need not be Unicode text
        pipe.write(text.encode() + b"\n")
        pipe.flush()

    def found(file: str, findings: Iterable[Finding]) -> None:
        tell(_Found(file, tuple(findings)))

    try:
        runtime, plan = make(Talk(lambda text: tell(_Said(text)), lambda text: tell(_Warned(text)), found))
        tell(_Made(runtime.name, to_text(plan)))
    except InvalidInput as wrong:
        tell(_Wrong(wrong.message, wrong.hint, wrong.exit_code, wrong.file, wrong.findings))
    except TestbedError as wrong:
        tell(_Wrong(wrong.message, wrong.hint, wrong.exit_code))
    except Exception as problem:
        if isinstance(problem, OSError) and problem.errno is not None:  # libraries have others of their own
            file = None if problem.filename is None else str(problem.filename)
            tell(_Denied(problem.errno, problem.strerror or "", file))
        else:
            tell(_Failed(traceback.format_exc()))
