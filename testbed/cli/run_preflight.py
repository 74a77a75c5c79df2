"""What a run of real processes or of containers needs, compared with what this machine has.

Takes a plan, says what is short of; raises PreflightRefused unless forced. Reads what the kernel says of the machine,
and asks the Engine.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.code import CodeProblem
from testbed.engines.namespace import TcpSettings
from testbed.errors import PreflightRefused
from testbed.experiment.attached import own_code
from testbed.isolation.sandbox_check import sandbox_support
from testbed.node.data.problems import Impossible
from testbed.node.models.problems import ModelProblem
from testbed.plan.estimate import estimate
from testbed.plan.time_scale import refuse_too_late_for_tcp
from testbed.runtimes.docker.preflight import check_engine_and_image
from testbed.runtimes.local.needs import Need, needs_of, step_need, traffic_need
from testbed.runtimes.local.seen import shown_too

if TYPE_CHECKING:
    from testbed.plan.model import RunPlan

_ORDINARY = "run testbed as an ordinary user, or with --runtime docker"


def check_machine(plan: RunPlan, results: Path, say: Callable[[str], None], *, force: bool, is_fitted: bool) -> None:
    """Shaping fails closed: what the network needs cannot be forced. `is_fitted`: the time scale is this machine's."""
    if plan.engine != "none":
        from testbed.engines.network_check import what_is_denied

        network = plan.experiment.network
        denied = what_is_denied(TcpSettings(congestion=network.congestion, idle_restart=network.idle_restart))
        if denied is not None:
            raise denied
        refuse_too_late_for_tcp(plan)
    list(shown_too())  # what was asked for is there
    _meet([*needs_of(plan), *_processors(plan, is_fitted=is_fitted)], say, force=force)
    for warning in _trust(plan, results):
        say(f"warning: {warning}")


def _trust(plan: RunPlan, results: Path) -> Iterator[str]:
    """What the code of others could do on this machine that it should not."""
    there = next(each for each in (results.absolute(), *results.absolute().parents) if each.is_dir())
    how = sandbox_support(str(there), tempfile.gettempdir())
    if how.denied is not None:
        who = "of root" if os.geteuid() == 0 else "of yours"
        yield f"learners can read and change all files {who}: this machine denies what would help ({how.denied})"
    elif how.still_root is not None:
        yield f"learners are root, though they see few files, since this machine denies more ({how.still_root})"
    if os.geteuid() == 0 and any(own_code(plan.experiment)):
        yield f"as root, deploy itself has loaded the code that the experiment names, to make the plan: {_ORDINARY}"


def check_containers(
    plan: RunPlan, image: str, folder: Path, say: Callable[[str], None], *, force: bool, is_fitted: bool
) -> RunPlan:
    """The plan with what is in the image; the same, of a machine whose Engine has the containers.

    The run will be in `folder`.
    """
    refuse_too_late_for_tcp(plan)
    plan = check_engine_and_image(plan, image, folder, say, force=force)
    _meet(list(_processors(plan, is_fitted=is_fitted)), say, force=force)
    return plan


def _meet(needs: Sequence[Need], say: Callable[[str], None], *, force: bool) -> None:
    short = [need for need in needs if need.is_short]
    if short and not force:
        remedies = [need.remedy for need in short if need.remedy]
        raise PreflightRefused(
            f"this machine is too small for the run: {'; '.join(map(_words, short))}",
            f"{'take ' + ', '.join(remedies) if remedies else 'take fewer nodes or other settings'}, or --force it",
        )
    for need in needs:
        if need.is_short or need.is_tight:
            say(f"warning: {_words(need)}{'; better ' + need.remedy if need.remedy else ''}")


def _processors(plan: RunPlan, *, is_fitted: bool) -> Iterator[Need]:
    """Only what somebody has chosen: `auto` is what the machine can do."""
    yield from _step(plan)
    if plan.engine != "none" and not is_fitted:
        need = traffic_need(plan, estimate(plan))
        if need is not None:
            yield need


def _step(plan: RunPlan) -> Iterator[Need]:
    compute = plan.experiment.compute
    if compute.mode != "paced" or compute.ms_per_step == "auto":
        return
    from testbed.runtimes.local.speed import sent_bytes_of, step_times

    sent_bytes = sent_bytes_of(plan.parameters, plan.overlay.degree)
    try:
        times = step_times(plan.experiment, len(plan.learners), sent_bytes, plan.ms_per_step * plan.time_scale)
    except (CodeProblem, ModelProblem, Impossible):
        return  # the run will tell, with the name of a node
    yield step_need(plan, times)


def _words(need: Need) -> str:
    return f"{need.what}: {need.needed} needed, {need.there} there"
