"""The list of runtimes, in the order in which `deploy` considers them, and the choice of one for a run.

Takes names and options, gives runtimes and the reason of a choice. A new runtime is a folder, and a line in `RUNTIMES`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from testbed.collect.plan_head import read_plan_head
from testbed.errors import PreflightRefused, UsageProblem, did_you_mean
from testbed.runtimes.docker.runtime import DockerRuntime
from testbed.runtimes.processes.runtime import LocalRuntime
from testbed.runtimes.runtime import Given, RunOption, Runtime
from testbed.runtimes.sim.runtime import SimRuntime

if TYPE_CHECKING:
    from collections.abc import Callable

    from testbed.plan.model import How, RuntimeChoice
    from testbed.rundir import RunDirectory
    from testbed.runtimes.tracking.leftovers import Removed

RUNTIMES: tuple[Runtime, ...] = (DockerRuntime(), LocalRuntime(), SimRuntime())
"""By default, a run gets the first one that this machine supports: containers only if the user has built the image;
then real processes, which most experiments need; else virtual time."""
CONTAINERS = RUNTIMES[0]
"""The runtime whose plans also run in Compose's containers."""
_PLANNED = ("swarm", "kubernetes", "kollaps")
PIN = "TESTBED_RUNTIME"


def names() -> list[str]:
    return [each.name for each in RUNTIMES]


def named(name: str, where: str = "") -> Runtime:
    """Raises UsageProblem for an unknown runtime, PreflightRefused for one that this operating system cannot have."""
    runtime = next((each for each in RUNTIMES if each.name == name), None)
    if runtime is None:
        if name in _PLANNED:
            there = f"there is: {', '.join(names())}"
            raise UsageProblem(f"{where}this version of testbed cannot run on `{name}` yet", there)
        raise UsageProblem(f"{where}there is no runtime `{name}`", did_you_mean(name, names()))
    if (problem := runtime.unsupported()) is not None:
        raise PreflightRefused(f"{where}{problem.message}", problem.hint)
    return runtime


def runtime_of(run: RunDirectory) -> Runtime | None:
    """The runtime that a run's plan names; None if the plan is unreadable, or names an unknown one."""
    name = read_plan_head(run.plan)[0].runtime
    return next((each for each in RUNTIMES if each.name == name), None)


def owner_of(run: RunDirectory) -> Runtime:
    """The runtime that manages a run's directory. Without a readable plan, the one of real processes."""
    return runtime_of(run) or next(
        each for each in RUNTIMES if not each.facts.is_virtual and not each.facts.has_own_files
    )


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
    return [option for option in options() if given.get(option.name) not in option.neutral]


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
        """The next possible runtime, because this one does not fit."""
        assert self.given is not None  # noqa: S101 - only defaults are reconsidered
        rest = RUNTIMES[RUNTIMES.index(self.runtime) + 1 :]
        return next(_defaults(rest, self.given, why))

    def settled(self, say: Callable[[str], None], warn: Callable[[str], None], also: Sequence[str] = ()) -> Chosen:
        """Announces the choice, after all other checks; the next runtime if this machine denies this one.

        `also` lists further requests that virtual time cannot fulfil. Raises PreflightRefused if the next runtime
        would ignore a request: the user must not mistake the run for the requested one.
        """
        denial = None
        if self.how == "default" and self.given is not None:
            denial = self.runtime.denial(self.given)
        if denial is None:
            if self.why:
                other = self._other()
                remark = "" if other is None else f"; --runtime {other.name} is {other.facts.what}"
                say(f"runtime: {self.name} ({self.why}{remark})")
            return self
        next_one = self._other()
        assert next_one is not None  # noqa: S101 - virtual time is denied nowhere
        asked = [_words(each, self.given or {}) for each in asked_for(self.given or {}) if each not in next_one.options]
        if asked := [*asked, *also]:
            raise PreflightRefused(
                f"real learners cannot have networks of their own on this machine: {denial.message}",
                f"{denial.hint}; without {', '.join(asked)} the run is in {next_one.facts.what} "
                f"(--runtime {next_one.name})",
            )
        warn(
            f"runtime: {next_one.name}, {next_one.facts.what}, since real learners cannot run here: "
            f"{denial.message}; {denial.hint}"
        )
        return Chosen(next_one, "fallback", denial.message)

    def _other(self) -> Runtime | None:
        """The next runtime of the list, if this choice is a default."""
        rest = RUNTIMES[RUNTIMES.index(self.runtime) + 1 :] if self.how == "default" else ()
        return next(iter(rest), None)

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
        chosen = next(_defaults(RUNTIMES, given, ""))
    check_options(chosen.runtime, given)
    return chosen


def _defaults(among: Sequence[Runtime], given: Given, why: str) -> Iterator[Chosen]:
    """The possible defaults, each with the reason why the one before it was skipped."""
    for runtime in among:
        if untaken := [_words(each, given) for each in asked_for(given) if each not in runtime.options]:
            why = why or ", ".join(untaken)
            if runtime is not among[-1]:
                continue
        elif (reason := runtime.why_not_default()) is not None:
            why = reason
            continue
        yield Chosen(runtime, "default", why or runtime.facts.by_default, given)
