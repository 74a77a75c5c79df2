"""What a local run needs, compared with what this machine has.

Takes a plan, says what is short of; raises PreflightRefused unless forced. Reads what the kernel says of the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from testbed.code import CodeProblem
from testbed.engines.abilities import what_is_denied
from testbed.engines.namespace import TcpSettings
from testbed.errors import PreflightRefused
from testbed.node.data.problems import Impossible
from testbed.node.models.problems import ModelProblem
from testbed.runtimes.local.needs import Need, needs_of
from testbed.runtimes.local.speed import sent_bytes_of, step_times

if TYPE_CHECKING:
    from testbed.plan.model import RunPlan


def check_machine(plan: RunPlan, say: Callable[[str], None], *, force: bool) -> None:
    """Shaping fails closed: what the network needs cannot be forced."""
    if plan.engine != "none":
        network = plan.experiment.network
        denied = what_is_denied(TcpSettings(congestion=network.congestion, idle_restart=network.idle_restart))
        if denied is not None:
            raise denied
    short = [_words(need) for need in (*needs_of(plan), *_processor(plan, say)) if need.is_short]
    if short and not force:
        raise PreflightRefused(
            f"this machine is too small for the run: {'; '.join(short)}",
            "take fewer nodes or other settings, or --force it",
        )
    for words in short:
        say(f"warning: {words}")


def _processor(plan: RunPlan, say: Callable[[str], None]) -> Iterator[Need]:
    """Only where somebody has chosen how long a step takes: `auto` is what the machine can do."""
    compute = plan.experiment.compute
    if compute.mode != "paced" or compute.ms_per_step == "auto":
        return
    learners = len(plan.learners)
    try:
        times = step_times(plan.experiment, learners, sent_bytes_of(plan.parameters, plan.overlay.degree))
    except (CodeProblem, ModelProblem, Impossible):
        return  # the run will tell, with the name of a node
    is_short = plan.ms_per_step < times.least
    if not is_short and plan.ms_per_step < times.sustained:
        say(f"warning: {learners} learners on this machine need about {times.sustained:g} ms a step to keep up")
    yield Need("time of a local step", f"at least {times.least:.3g} ms", f"{plan.ms_per_step:g} ms", is_short)


def _words(need: Need) -> str:
    return f"{need.what}: {need.needed} needed, {need.there} there"
