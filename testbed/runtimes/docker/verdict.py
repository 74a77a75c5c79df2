"""How a run of containers ended, from control's summary and the states of failed containers.

Takes a run directory and ended containers, gives an `Outcome` or the reason why there is none; reads and removes
control's summary.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from testbed.control.outcome import NodeFailure, Outcome
from testbed.errors import CouldNotStart, ExitCode, PreflightRefused, RunBroken, TestbedError, UsageProblem
from testbed.records import Failure
from testbed.run_files import Malformed, read_document
from testbed.rundir import RunDirectory
from testbed.runtimes.containers.container_paths import ContainerPaths, outcome_file
from testbed.runtimes.containers.reachability import UNREACHED, Unreached
from testbed.runtimes.docker.container_set import EndedContainer
from testbed.runtimes.docker.containers import CONTROL, FABRIC, LEARNER
from testbed.units import format_size

_ERROR = "Error: "
_KINDS: dict[int, type[TestbedError]] = {
    ExitCode.USAGE: UsageProblem,
    ExitCode.REFUSED: PreflightRefused,
    UNREACHED: Unreached,
    ExitCode.NODE_FAILED: RunBroken,
}
_WITH_THE_ENGINE = (
    "containers end with the Docker Engine, unless it is told to keep them (live-restore in its daemon.json)"
)


def outcome_of(run: RunDirectory, ended: Iterable[EndedContainer], *, was_away: bool) -> Outcome:
    """The run's outcome. `was_away`: the Docker Engine had an outage, and the user has not ended the run.

    Raises CouldNotStart if the Docker Engine has ended the run; control's error if control failed.
    """
    there = list(ended)
    path = outcome_file(run)
    try:
        outcome = read_document(path, run.path, Outcome)
    except (OSError, Malformed):
        raise why_not(run, there, was_away=was_away) from None
    path.unlink(missing_ok=True)
    if was_away and outcome.reason == "interrupted":
        raise CouldNotStart("the Docker Engine was restarted during the run, and has ended it", _WITH_THE_ENGINE)
    told = {each.node: each for each in there if each.part == LEARNER}
    failures = tuple(
        NodeFailure(each.node, _with_words(each.failure, _of_container(told.get(each.node))))
        for each in outcome.failures
    )
    broken = tuple("; ".join([words, *_of_container(_fabric(there))]) for words in outcome.broken)
    return replace(outcome, failures=failures, broken=broken)


def why_not(run: RunDirectory, ended: Iterable[EndedContainer], *, was_away: bool = False) -> TestbedError:
    """The error for a run without a summary: control's message, with paths of this machine."""
    there = list(ended)
    control = next(each for each in there if each.part == CONTROL)
    fabric = _of_container(_fabric(there), "the fabric's container")
    if fabric and control.exit_code == 0:  # control was still waiting for the fabric
        return CouldNotStart("; ".join(fabric))
    said = control.said.replace(str(ContainerPaths().run.path), str(run.path)).splitlines()
    errors = [number for number, line in enumerate(said) if line.startswith(_ERROR)]
    if errors:
        hint = " ".join(said[errors[-1] + 1 : errors[-1] + 2]).strip()
        message = "; ".join([said[errors[-1]].removeprefix(_ERROR), *fabric])
        return _KINDS.get(control.exit_code, CouldNotStart)(message, hint)
    words = f"control's container ended with exit code {control.exit_code}{_memory(control)}"
    last = said[-1] if said else control.error
    words = f"{words}: {last}" if last else words
    return CouldNotStart("; ".join([words, *fabric]), _WITH_THE_ENGINE if was_away else "")


def _fabric(ended: Iterable[EndedContainer]) -> EndedContainer | None:
    return next((each for each in ended if each.part == FABRIC), None)


def _with_words(failure: Failure, more: list[str]) -> Failure:
    return msgspec.structs.replace(failure, message="; ".join([failure.message, *more]))


def _of_container(ended: EndedContainer | None, name: str = "its container") -> list[str]:
    """The container's state in words, if it failed: control knows less than the Docker Engine."""
    if ended is None or ended.exit_code == 0:
        return []
    words = [f"{name} ended with exit code {ended.exit_code}{_memory(ended)}"]
    if ended.error:
        words.append(ended.error)
    if ended.said:
        words.append(f"its last output: {ended.said.splitlines()[-1]}")
    return words


def _memory(ended: EndedContainer) -> str:
    if not ended.out_of_memory:
        return ""
    limit = "" if ended.memory_bytes is None else f" (it may use {format_size(ended.memory_bytes)})"
    return f", out of memory{limit}"
