"""Words for settings of a run that its experiment alone does not decide: a step's time, TCP, the data plane.

Takes plans, gives words; pure.
"""

from __future__ import annotations

from testbed.plan.model import DataPlaneChoice, RunPlan


def is_longer(plan: RunPlan) -> bool:
    """Whether a step takes longer than the experiment asks for."""
    return plan.asked is not None and plan.ms_per_step > plan.asked.ms_per_step


def step_words(plan: RunPlan) -> str:
    """Such as `10 ms`, or `190 ms instead of 20 ms`; both in emulated time."""
    words = f"{plan.ms_per_step:g} ms"
    return f"{words} instead of {plan.asked.ms_per_step:g} ms" if plan.asked is not None and is_longer(plan) else words


def congestion_words(plan: RunPlan) -> str:
    """Such as `cubic`, or `reno instead of cubic` with the reason."""
    used = plan.experiment.network.congestion
    if plan.asked is None or plan.asked.congestion == used:
        return used
    if plan.time_scale == 1.0:  # in virtual time, the plan of a real run
        return f"{used} instead of {plan.asked.congestion}, as in the real run that this plan is of"
    return (
        f"{used} instead of {plan.asked.congestion}, whose windows grow by the kernel's clock, "
        f"which no time scale slows down"
    )


def data_plane_words(choice: DataPlaneChoice) -> str:
    """Such as `native`, or `auto` with what that means where the fabric chooses, in its container."""
    if choice.used is None and choice.asked == "auto":
        return "auto: native if the image has the compiled core, else python"
    return choice.used or choice.asked
