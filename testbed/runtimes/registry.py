"""The list of runtimes, in the order in which `deploy` considers them, and the choice of one for a run.

Takes names and options, gives runtimes and the reason of a choice. A new runtime is a folder, and a line in `RUNTIMES`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from testbed.collect.plan_head import read_plan_head
from testbed.errors import PreflightRefused, UsageProblem, did_you_mean
from testbed.runtimes.docker.runtime import DockerRuntime
from testbed.runtimes.processes.runtime import LocalRuntime
from testbed.runtimes.runtime import Denial, Given, RunOption, Runtime
from testbed.runtimes.sim.runtime import SimRuntime
from testbed.runtimes.tracking.process_records import read_record

if TYPE_CHECKING:
    from collections.abc import Callable

    from testbed.plan.model import How, RuntimeChoice
    from testbed.rundir import RunDirectory
    from testbed.runtimes.tracking.leftovers import Removed

CONTAINERS, PROCESSES = DockerRuntime(), LocalRuntime()
"""The runtime whose plans also run in Compose's containers; the one whose runs are known by their records alone."""
RUNTIMES: tuple[Runtime, ...] = (CONTAINERS, PROCESSES, SimRuntime())
"""By default, a run gets the first one that this machine supports: containers only if the user has built the image;
then real processes, which most experiments need; else virtual time."""
_PLANNED = ("swarm", "kubernetes", "kollaps")
PIN = "TESTBED_RUNTIME"


def names() -> list[str]:
    return [each.name for each in RUNTIMES]


def named(name: str, where: str = "") -> Runtime:
    """Raises UsageProblem for an unknown runtime, PreflightRefused for one that this operating system cannot have."""
    runtime = _called(name)
    if runtime is None:
        if name in _PLANNED:
            there = f"there is: {', '.join(names())}"
            raise UsageProblem(f"{where}this version of testbed cannot run on `{name}` yet", there)
        raise UsageProblem(f"{where}there is no runtime `{name}`", did_you_mean(name, names()))
    if (problem := runtime.unsupported()) is not None:
        raise PreflightRefused(f"{where}{problem.message}", problem.hint)
    return runtime


def owner_of(run: RunDirectory) -> Runtime:
    """The runtime that manages a run's directory: by its plan, else by its record, else the one of real processes."""
    found = _called(read_plan_head(run.plan)[0].runtime)
    if found is None and (record := read_record(run)) is not None:
        found = _called(record.runtime)
    return found or PROCESSES


def _called(name: str | None) -> Runtime | None:
    return next((each for each in RUNTIMES if each.name == name), None)


def destroy(run: RunDirectory) -> Removed:
    """Removes everything of the run but its results, with or without its plan. May be repeated."""
    if not run.plan.exists():
        for each in RUNTIMES:
            if run.path.resolve() in [stray.path for stray in each.strays()]:
                return each.destroy(run)
    return owner_of(run).destroy(run)


def strays() -> list[RunDirectory]:
    """Runs whose directories were removed, and of which something else is left."""
    return [run for each in RUNTIMES for run in each.strays()]


# -- options -----------------------------------------------------------------------------------------------------------


def options() -> list[RunOption]:
    """The options of all runtimes, each once."""
    return list(dict.fromkeys(option for each in RUNTIMES for option in each.options))


def check_options(runtime: Runtime, given: Given) -> None:
    """Raises UsageProblem for an option that the runtime would ignore."""
    for option in asked_for(given):
        if option not in runtime.options:
            takers = " or ".join(each.name for each in RUNTIMES if option in each.options)
            raise UsageProblem(
                f"runtime `{runtime.name}`, {runtime.facts.what}, takes no {option.flag}",
                f"{option.flag} is for --runtime {takers}",
            )


def asked_for(given: Given) -> list[RunOption]:
    """The given options with a value that asks for something."""
    return [option for option in options() if option.asks(given.get(option.name))]


def _words(option: RunOption, given: Given) -> str:
    return option.flag if option.is_switch else f"{option.flag} {_text(given.get(option.name))}"


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


# -- the choice --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chosen:
    """A runtime for a run, and why it was chosen."""

    runtime: Runtime
    how: How = "asked"
    why: str = ""
    """Empty if an option of the command named it."""
    given: Given | None = None
    """The run's options, for a choice that may still change."""

    @property
    def name(self) -> str:
        return self.runtime.name

    def after(self, why: str) -> Chosen:
        """The next possible runtime that takes all options, because this one does not fit; raises UsageProblem."""
        assert self.given is not None  # noqa: S101 - only defaults are reconsidered
        return _first_default(self._rest, self.given, why)

    def settled(self, say: Callable[[str], None], warn: Callable[[str], None], also: Sequence[str] = ()) -> Chosen:
        """Announces the choice, after all other checks; if this machine denies it, the next runtime that it allows.

        `also` lists further requests that virtual time cannot fulfil. Raises PreflightRefused if the next runtime
        would ignore a request: the user must not mistake the run for the requested one.
        """
        chosen, denial = self, self._denial()
        if denial is None:
            if self.why:
                other = next(iter(self._rest), None) if self.how == "default" else None
                remark = "" if other is None else f"; --runtime {other.name} is {other.facts.what}"
                say(f"runtime: {self.name} ({self.why}{remark})")
            return self
        first = denial
        while denial is not None:
            given = chosen.given or {}
            # Which runtime there would be is known without the options; it must not ignore any of them.
            following = replace(_first_default(chosen._rest, {}, denial.message), how="fallback", given=given)
            asked = [_words(each, given) for each in asked_for(given) if each not in following.runtime.options]
            asked += also if following.runtime.facts.is_virtual else ()
            if asked:
                raise PreflightRefused(
                    f"real learners cannot have networks of their own on this machine: {denial.message}",
                    f"{denial.hint}; without {', '.join(asked)} the run is in {following.runtime.facts.what} "
                    f"(--runtime {following.name})",
                )
            chosen, denial = following, following._denial()
        warn(
            f"runtime: {chosen.name}, {chosen.runtime.facts.what}, since real learners cannot run here: "
            f"{first.message}; {first.hint}"
        )
        return chosen

    @property
    def _rest(self) -> Sequence[Runtime]:
        return RUNTIMES[RUNTIMES.index(self.runtime) + 1 :]

    def _denial(self) -> Denial | None:
        """What this machine denies of a runtime that was not asked for."""
        return None if self.given is None else self.runtime.denial(self.given)

    def for_plan(self) -> RuntimeChoice:
        from testbed.plan.model import RuntimeChoice

        return RuntimeChoice(how=self.how, why=self.why)


def choose(asked: str | None, given: Given) -> Chosen:
    """The runtime named by an option or the environment, or the first default that takes all options.

    Raises UsageProblem and PreflightRefused as `named` and `check_options` do.
    """
    if asked is None:
        deciding = next((each for each in asked_for(given) if each.decides), None)
        takers = [each for each in RUNTIMES if deciding is not None and deciding in each.options]
        asked = takers[0].name if takers else None
    if asked is not None:
        chosen = Chosen(named(asked))
    elif pinned := os.environ.get(PIN):
        chosen = Chosen(named(pinned, f"{PIN}: "), why=f"{PIN} says so")
    else:
        chosen = _first_default(RUNTIMES, given, "")
    check_options(chosen.runtime, given)
    return chosen


def _first_default(among: Sequence[Runtime], given: Given, why: str) -> Chosen:
    """The first possible default that takes all options, with the reason why the one before it was skipped.

    Raises UsageProblem if there is none.
    """
    asked, missed = asked_for(given), ""
    for runtime in among:
        if untaken := [_words(each, given) for each in asked if each not in runtime.options]:
            why = why or ", ".join(untaken)
            continue
        reason = runtime.why_not_default()
        if reason is None:
            return Chosen(runtime, "default", why or runtime.facts.by_default, given)
        missed = missed or f"; `{runtime.name}` does, but {reason}"
        why = reason
    words = ", ".join(_words(each, given) for each in asked)
    raise UsageProblem(f"no runtime that this machine has by default takes {words}{missed}", "name one with --runtime")
