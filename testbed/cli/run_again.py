"""The command that repeats an overloaded run with settings that this machine can sustain.

Takes the words of an overloaded `deploy`, its plan and its summary, gives one line to copy; pure.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from testbed.control.health import MOST_ADDED_SHARE

if TYPE_CHECKING:
    from testbed.plan.model import RunPlan

_STEP = "compute.ms_per_step"
_TIME_SCALE = "--time-scale"
_LEAST_LONGER = 1.25
"""Reserve of the step: a shorter one is likely to be late again."""
_RUN_OWN = ("--run-id", _TIME_SCALE)
"""Options with a value that must not be repeated: the run's name is taken."""
_OVERWRITE = "--overwrite"
"""Belongs to a name; the overloaded run is kept."""


class Again(NamedTuple):
    command: str
    meaning: str
    """How the results of that run compare with others."""


def run_again(words: Sequence[str], plan: RunPlan, summary: Mapping[str, object]) -> Again | None:
    """The command with a longer step if only computing was late, else a larger time scale; None if neither helps."""
    if "--plan" in (word.partition("=")[0] for word in words):
        return None  # a plan is complete and takes no settings
    if (step := _longer_step(plan, summary)) is not None:
        was_chosen = any(word.partition("=")[0] == _TIME_SCALE for word in words)
        scale = [_TIME_SCALE, f"{plan.time_scale:g}"] if was_chosen or plan.time_scale != 1.0 else []
        line = _line(_without_step(words), [*scale, "--set", f"{_STEP}={step:g}"])
        return Again(line, "another experiment, with longer steps: runs compare if all have the same")
    if (larger := _larger_scale(plan)) is not None:
        line = _line(words, [_TIME_SCALE, f"{larger:g}"])
        return Again(line, _at_larger_scale(plan))
    return None


def _line(words: Sequence[str], changed: Sequence[str]) -> str:
    return shlex.join(["testbed", *_without_own(words), *changed])


def _longer_step(plan: RunPlan, summary: Mapping[str, object]) -> float | None:
    """The step that the latest work took; None if the network was late, too."""
    from testbed.plan.traffic import steps_per_round

    computing, why = summary.get("computing"), summary.get("why")
    if not isinstance(computing, Mapping) or not isinstance(why, Sequence) or len(why) != 1:
        return None
    if float(computing.get("added_share", 0.0)) <= MOST_ADDED_SHARE:
        return None
    late_ms = float(computing.get("worst_late_s", 0.0)) * 1000 / steps_per_round(plan)
    step_ms = max(plan.ms_per_step + late_ms, plan.ms_per_step * _LEAST_LONGER)
    return _up_to_two_digits(step_ms)


def _larger_scale(plan: RunPlan) -> float | None:
    """The next larger time scale at which TCP connections still work."""
    from testbed.plan.time_scale import SCALES, largest_scale

    largest = largest_scale(plan)
    return next((each for each in SCALES if plan.time_scale < each <= largest), None)


def _at_larger_scale(plan: RunPlan) -> str:
    if plan.experiment.compute.mode == "measured":
        return "another experiment, with a faster machine: a measured step is divided by the time scale"
    may_change = plan.time_scale == 1.0 and plan.experiment.network.congestion == "cubic"
    but = ", but with TCP reno unless it names a congestion control" if may_change else ""
    return f"the same experiment in more real time{but}"


def _without_own(words: Sequence[str]) -> list[str]:
    own = (*_RUN_OWN, _OVERWRITE)
    return [word for pair in _options(words) if pair[0].partition("=")[0] not in own for word in pair]


def _without_step(words: Sequence[str]) -> list[str]:
    return [word for pair in _options(words) if not "=".join(pair).startswith(f"--set={_STEP}=") for word in pair]


def _options(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Splits words into options with their values, and single words."""
    left = iter(words)
    for word in left:
        yield (word, *islice(left, 1)) if word in (*_RUN_OWN, "--set") else (word,)


def _up_to_two_digits(value: float) -> float:
    """Rounded up to two significant digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.6g}")
