"""The command that runs an experiment again in a way that this machine can keep up with.

Takes the words of a `deploy` whose run was overloaded, its plan and its summary, gives one line to copy; pure.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from testbed.control.health import MOST_ADDED_SHARE

if TYPE_CHECKING:
    from testbed.plan.model import RunPlan

_STEP = "compute.ms_per_step"
_TIME_SCALE = "--time-scale"
_LEAST_LONGER = 1.25
"""A step that is shorter than that is likely to be as late again."""
_RUN_OWN = ("--run-id", _TIME_SCALE)
"""Options with a value that belong to the run that was: its name is taken."""
_OVERWRITE = "--overwrite"
"""It goes with a name, and this run need not be lost for another."""


def run_again(words: Sequence[str], plan: RunPlan, summary: Mapping[str, object]) -> str | None:
    """With a longer step where computing alone was late, else with a larger time scale; None where neither helps."""
    if "--plan" in (word.partition("=")[0] for word in words):
        return None  # a plan is complete: nothing of it can be set
    if (step := _longer_step(plan, summary)) is not None:
        was_chosen = any(word.partition("=")[0] == _TIME_SCALE for word in words)
        scale = [_TIME_SCALE, f"{plan.time_scale:g}"] if was_chosen or plan.time_scale != 1.0 else []
        return _line(_without_step(words), [*scale, "--set", f"{_STEP}={step:g}"])
    if (larger := _larger_scale(plan)) is not None:
        return _line(words, [_TIME_SCALE, f"{larger:g}"])
    return None


def _line(words: Sequence[str], changed: Sequence[str]) -> str:
    return shlex.join(["testbed", *_without_own(words), *changed])


def _longer_step(plan: RunPlan, summary: Mapping[str, object]) -> float | None:
    """As long as the latest work took; None where the network was late, too."""
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
    """The next one that the kernel's connections bear."""
    from testbed.plan.time_scale import SCALES, largest_scale

    largest = largest_scale(plan)
    return next((each for each in SCALES if plan.time_scale < each <= largest), None)


def _without_own(words: Sequence[str]) -> list[str]:
    own = (*_RUN_OWN, _OVERWRITE)
    return [word for pair in _options(words) if pair[0].partition("=")[0] not in own for word in pair]


def _without_step(words: Sequence[str]) -> list[str]:
    return [word for pair in _options(words) if not "=".join(pair).startswith(f"--set={_STEP}=") for word in pair]


def _options(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Options that are looked at together with the value that follows them, all other words by themselves."""
    left = iter(words)
    for word in left:
        yield (word, *islice(left, 1)) if word in (*_RUN_OWN, "--set") else (word,)


def _up_to_two_digits(value: float) -> float:
    """Rounded up, as a person would write it."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.6g}")
