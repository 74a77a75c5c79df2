"""A plan that this machine can keep up with: its time scale, and how long a local step takes.

Takes a plan in the making and what was asked for, gives the plan and words about what was chosen; trains for a second.
The machine says how long a step must last in real time, then the network how much slower everything has to go, and then
the same real time is so much less of emulated time. The other way round neither would ever be enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import click

from testbed.errors import UsageProblem
from testbed.plan.estimate import estimate
from testbed.plan.model import LARGEST_TIME_SCALE, RunPlan
from testbed.plan.time_scale import late_for_tcp, smallest_scale

if TYPE_CHECKING:
    from testbed.runtimes.local.speed import StepTimes

AUTO = "auto"
_SHAPED = "fabric"


class Make(Protocol):
    """All else of the plan is known."""

    def __call__(self, *, nominal_ms_per_step: float | None, time_scale: float) -> RunPlan: ...


class TimeScaleType(click.ParamType[float | None]):
    """A number, or `auto`, which is none."""

    name = "auto|k"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        if value == AUTO:
            return None
        try:
            scale = float(str(value))
        except ValueError:
            self.fail(f"`{value}` is neither a number nor {AUTO}", param, ctx)
        if math.isfinite(scale) and scale < 1.0:
            self.fail(f"{scale:g} is below 1: real time cannot be made to pass faster than it does", param, ctx)
        if not scale <= LARGEST_TIME_SCALE:
            self.fail(f"at most {LARGEST_TIME_SCALE:g}", param, ctx)
        return scale


def check_time_scale(runtime: str, asked: float | None) -> None:
    if runtime == "sim" and asked not in (None, 1.0):
        raise UsageProblem(
            "virtual time has no time scale: it takes the real time that it takes",
            "leave out --time-scale, or run with --runtime local",
        )


def fitted(
    make: Make,
    first: RunPlan,
    parameters: int | None,
    nominal_ms: float | None,
    asked: float | None,
    say: Callable[[str], None],
) -> RunPlan:
    """`first` has all but what the data and the model say; None is asked for where the choice is free."""
    times = None
    if nominal_ms is not None and first.experiment.compute.ms_per_step == AUTO:
        times = _step_times(first, parameters)

    def at(time_scale: float) -> RunPlan:
        step_ms = nominal_ms if times is None else times.sustained_at(time_scale)
        return make(nominal_ms_per_step=step_ms, time_scale=time_scale)

    made = at(1.0 if asked is None else asked)
    if asked is None and made.engine == _SHAPED:
        scale = _carried(made, say)
        made = made if scale == 1.0 else at(scale)
    if times is not None:
        count = len(first.learners)
        say(f"a local step takes {made.ms_per_step:g} ms: what this machine can keep up with, {count} learners on it")
    for words in late_for_tcp(made):
        say(f"warning: {words}")
    return made


def _step_times(plan: RunPlan, parameters: int | None) -> StepTimes:
    from testbed.runtimes.local.speed import sent_bytes_of, step_times

    return step_times(plan.experiment, len(plan.learners), sent_bytes_of(parameters, plan.overlay.degree))


def _carried(plan: RunPlan, say: Callable[[str], None]) -> float:
    """The smallest time scale with which this machine carries what the nodes send."""
    from testbed.runtimes.local.capacity import carried_bytes_s, in_mb_s

    cost = estimate(plan)
    if cost.peak_bytes_s is None:
        say("time scale 1: how much the nodes will send is not known; say --time-scale if it is too much")
        return 1.0
    carried = carried_bytes_s()
    scale = smallest_scale(cost.peak_bytes_s, carried)
    if scale != 1.0:
        would = "could" if cost.peak_is_bound else "would"
        sending = f"the nodes {would} send up to {in_mb_s(cost.peak_bytes_s)}"
        if ":" in plan.experiment.algorithm.name:
            sending = f"if all send to all neighbours every round, {sending}"
        say(f"time scale {scale:g}: {sending}, this machine carries {in_mb_s(carried)}")
    return scale
