"""`--time-scale`: what it may be, and where there is none."""

from __future__ import annotations

import math

import click

from testbed.cli.run_choice import LOCAL, SIM
from testbed.errors import UsageProblem

AUTO = "auto"


class TimeScaleType(click.ParamType[float | None]):
    """A number, or `auto`, which is none."""

    name = "auto|k"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        from testbed.plan.model import LARGEST_TIME_SCALE

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
    """Raises UsageProblem for one that a runtime has no use for."""
    if runtime == SIM and asked not in (None, 1.0):
        raise UsageProblem(
            "virtual time has no time scale: it takes the real time that it takes",
            f"leave out --time-scale, or run with --runtime {LOCAL}",
        )
