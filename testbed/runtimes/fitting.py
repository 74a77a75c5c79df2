"""Fits a plan to this machine: the time scale, and the time of a local step.

Takes an unfinished plan and options, gives the plan, and says what was chosen; trains for a second. The time scale
follows the network alone: it is the smallest with which this machine carries the nodes' traffic. At that scale a step
takes as long as the experiment asks for, or as long as this machine needs to train all learners. Measurements differ a
little, so an earlier run's figure is used again if it is close: then the runs compare.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.plan.estimate import estimate
from testbed.plan.instead import congestion_words, data_plane_words, is_longer, step_words
from testbed.plan.make import NOMINAL_MS_PER_STEP, paced
from testbed.plan.model import RunPlan
from testbed.plan.time_scale import largest_scale, late_for_tcp, smallest_scale
from testbed.runtimes.capacity import carried_bytes_s, carrier, in_mb_s
from testbed.runtimes.earlier_runs import EarlierRun, earlier_alike
from testbed.runtimes.runtime import AUTO, UNSHAPED

if TYPE_CHECKING:
    from testbed.runtimes.machine_speed import StepTimes

_REMEDY = "take fewer nodes, a smaller --degree, a longer compute.ms_per_step, or --runtime sim"
_AS_GOOD = 0.9, 1.5
"""Bounds of an earlier run's step, relative to the measured one, which has a reserve of a quarter."""


@dataclass(frozen=True)
class _Steps:
    """How long steps must take for this machine to keep up, and why."""

    times: StepTimes
    before: Sequence[EarlierRun]
    """Runs with the same training, latest first."""

    def sustained_at(self, time_scale: float) -> float:
        """The shortest step that this machine sustains, in emulated time."""
        last = self._as_good(time_scale)
        return self.times.sustained_at(time_scale) if last is None else last.step_ms

    def why(self, plan: RunPlan) -> str:
        """Why the plan's step is longer than asked for."""
        reason = f"this machine cannot train {len(plan.learners)} learners faster"
        if (same := self._as_good(plan.time_scale)) is not None:
            return f"{reason}; as in {same.run_id}, so that the two compare"
        last = next(iter(self._on(plan.time_scale)), None)
        if last is None or last.step_ms == plan.ms_per_step:
            return reason
        return (
            f"{reason}; in {last.run_id} it took {last.step_ms:g} ms, so their times do not compare: "
            f"say --set compute.ms_per_step={max(last.step_ms, plan.ms_per_step):g} for both"
        )

    def _on(self, time_scale: float) -> list[EarlierRun]:
        return [each for each in self.before if each.time_scale == time_scale]

    def _as_good(self, time_scale: float) -> EarlierRun | None:
        """The latest run that was not overloaded, if its step is close to the measured one."""
        same = self._on(time_scale)
        last = next((each for each in same if not each.was_too_much), None)
        if last is None:
            return None
        least, most = _AS_GOOD
        if any(each.was_too_much and each.step_ms >= last.step_ms for each in same):
            least = 1.0  # this step was too short for another run
        measured_ms = self.times.sustained_at(time_scale)
        return last if least * measured_ms <= last.step_ms <= most * measured_ms else None


def fitted(
    plan: RunPlan,
    nominal_ms: float | None,
    asked: float | None,
    beside: Path,
    say: Callable[[str], None],
    warn: Callable[[str], None],
) -> RunPlan:
    """The plan with a time scale and a step that this machine keeps up with. Virtual time needs no fitting.

    `plan` has time scale 1 and the default step. `nominal_ms` is a step on the nominal device, if known. `asked` is the
    requested time scale, or None. `beside` is the folder of runs that this one may be compared with.
    """
    nominal_ms = NOMINAL_MS_PER_STEP if nominal_ms is None else nominal_ms
    if plan.runtime_facts is not None and plan.runtime_facts.is_virtual:
        return paced(plan, nominal_ms)
    steps = None
    if plan.parameters is not None and plan.experiment.compute.ms_per_step == AUTO:
        steps = _Steps(_step_times(plan, plan.parameters), earlier_alike(beside, plan))

    def at(time_scale: float) -> RunPlan:
        sustained_ms = 0.0 if steps is None else steps.sustained_at(time_scale)
        return paced(plan, nominal_ms, sustained_ms, time_scale)

    if asked is None and plan.engine != UNSHAPED:
        made = _carried(at, carried_bytes_s(plan), say)
    else:
        made = at(1.0 if asked is None else asked)
    if steps is not None and made.experiment.compute.mode == "paced":
        words = f"a local step takes {step_words(made)}"
        if is_longer(made):  # another experiment than the one that was asked for
            warn(f"warning: {words}: {steps.why(made)}")
        else:
            say(words)
    say(f"TCP's congestion control: {congestion_words(made)}")
    if made.data_plane is not None:
        say(f"data plane: {data_plane_words(made.data_plane)}")
    for words in late_for_tcp(made):
        say(f"warning: {words}")
    return made


def _step_times(plan: RunPlan, parameters: int) -> StepTimes:
    from testbed.runtimes.machine_speed import sent_bytes_of, step_times

    sent_bytes = sent_bytes_of(parameters, plan.overlay.degree)
    return step_times(plan.experiment, len(plan.learners), sent_bytes * carrier(plan).byte_s)


def _carried(at: Callable[[float], RunPlan], carried: float, say: Callable[[str], None]) -> RunPlan:
    """The plan with the smallest time scale with which this machine carries the nodes' traffic, up to TCP's limit."""
    made = at(1.0)
    if (cost := estimate(made)).peak_bytes_s is None:
        say("time scale 1: how much the nodes will send is not known; say --time-scale if it is too much")
        return made
    largest = largest_scale(made)
    # With a larger scale steps may be shorter, and then more is sent in a second of emulated time.
    while (scale := smallest_scale(cost.peak_bytes_s or 0.0, carried)) > made.time_scale < largest:
        made = at(min(scale, largest))
        cost = estimate(made)
    peak_bytes_s = cost.peak_bytes_s or 0.0
    if made.time_scale == 1.0 and scale == 1.0:
        return made
    would = "could" if cost.peak_is_bound else "would"
    sending = f"the nodes {would} send up to {in_mb_s(peak_bytes_s)}"
    if cost.assumed:
        sending = f"if {', and '.join(cost.assumed)}, {sending}"
    say(f"time scale {made.time_scale:g}: {sending}, this machine carries {in_mb_s(carried)}")
    if scale > made.time_scale:
        say(
            f"warning: {scale:g} would carry all of it, but is more than the kernel's connections bear on ways as "
            f"long as these: this run may be overloaded; {_REMEDY}"
        )
    elif peak_bytes_s > carried * made.time_scale:
        say(f"warning: not even {scale:g} carries all of it: this run may be overloaded; {_REMEDY}")
    return made
