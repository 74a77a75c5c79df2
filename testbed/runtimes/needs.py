"""Compares what a run needs with what this machine has.

Takes a plan, gives figures or raises PreflightRefused; reads kernel limits, and may train for a moment.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from testbed.code import CodeProblem
from testbed.cores import usable_cores
from testbed.errors import PreflightRefused
from testbed.memory import available_bytes
from testbed.node.data.problems import Impossible
from testbed.node.models.problems import ModelProblem
from testbed.node.real_compute import is_dense
from testbed.plan.containers import MODEL_COPIES
from testbed.plan.estimate import Estimate, estimate
from testbed.plan.model import RunPlan
from testbed.plan.time_scale import SCALES, smallest_scale
from testbed.runtimes.capacity import carried_bytes_s, carrier, in_mb_s
from testbed.runtimes.runtime import UNSHAPED

if TYPE_CHECKING:
    from testbed.runtimes.machine_speed import StepTimes

_BASE_BYTES = 500_000_000
"""The zygote, the fabric and control."""
_NODE_BYTES, _DENSE_NODE_BYTES = 22_000_000, 14_000_000
"""Measured memory of a node besides its models, the kernel's for it included; that of a step is kept in the first."""
_NODE_DESCRIPTORS = 2
"""Descriptors of a node in the fabric and in control."""
_SPARE_DESCRIPTORS = 100
_PEER_DESCRIPTORS = 4
"""Of a node, at most: a connection to the peer, two attempts at the next one, and the peer's own connection."""
_HOPELESS = 3.0
"""Factor by which traffic may exceed the capacity before the run is refused: estimates may be wrong."""


@dataclass(frozen=True)
class Need:
    """One resource; the texts include units."""

    what: str
    needed: str
    there: str
    is_short: bool
    """The run is refused."""
    is_tight: bool = False
    """The run may be overloaded."""
    remedy: str = ""


def needs_of(plan: RunPlan) -> Iterator[Need]:
    nodes = len(plan.nodes)
    neighbours = max(1, plan.overlay.degree or 1)
    own_bytes = _DENSE_NODE_BYTES if is_dense(nodes, usable_cores()) else _NODE_BYTES
    node_bytes = own_bytes + 4 * (plan.parameters or 0) * (MODEL_COPIES + neighbours)
    needed_bytes = _BASE_BYTES + nodes * node_bytes
    there_bytes = available_bytes()
    yield Need("memory", in_gib(needed_bytes), in_gib(there_bytes), needed_bytes > there_bytes)
    descriptors = nodes * _NODE_DESCRIPTORS + _SPARE_DESCRIPTORS
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    yield Need("open files", str(descriptors), str(most), descriptors > most != resource.RLIM_INFINITY)
    own = _most_peers(plan) * _PEER_DESCRIPTORS + _SPARE_DESCRIPTORS
    yield Need("open files of a node", str(own), str(most), own > most != resource.RLIM_INFINITY)
    processes = nodes * 4 + 100
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    if most != resource.RLIM_INFINITY and os.getuid():
        yield Need("processes and threads", str(processes), str(most), processes > most)


def _most_peers(plan: RunPlan) -> int:
    """The most peers of a node. With changing overlays or a server, a node may have all others as peers."""
    overlay = plan.overlay
    if overlay.neighbours is None or plan.server is not None or overlay.sampler is not None:
        return len(plan.nodes) - 1
    return max((len(peers) for peers in overlay.neighbours), default=0)


def step_need(plan: RunPlan, times: StepTimes) -> Need:
    """The need of a chosen time of local steps."""
    real_ms = plan.ms_per_step * plan.time_scale
    remedy = f"--set compute.ms_per_step={times.sustained_at(plan.time_scale):g}"
    scale = next((each for each in SCALES if each * plan.ms_per_step >= times.sustained), None)
    if scale is not None:
        remedy = f"--time-scale {scale} or {remedy}"
    return Need(
        f"processors: real time of a local step of {len(plan.learners)} learners",
        f"{times.least:.3g} to {times.sustained:.3g} ms",
        f"{real_ms:.3g} ms",
        real_ms < times.least,
        real_ms < times.sustained,
        remedy,
    )


def traffic_need(plan: RunPlan, cost: Estimate) -> Need | None:
    """The need of the fabric; None if the traffic is unknown."""
    if cost.peak_bytes_s is None:
        return None
    real, carried = cost.peak_bytes_s / plan.time_scale, carried_bytes_s(plan)
    return Need(
        "processors: traffic at its peak",
        in_mb_s(real),
        in_mb_s(carried),
        real > _HOPELESS * carried and not cost.peak_is_bound,
        real > carried,
        f"--time-scale {smallest_scale(cost.peak_bytes_s, carried):g}",
    )


def processor_needs(plan: RunPlan, *, is_fitted: bool) -> Iterator[Need]:
    """Needs of chosen steps and time scales; `auto` always fits the machine. `is_fitted`: the time scale was `auto`."""
    yield from _step(plan)
    if plan.engine != UNSHAPED and not is_fitted:
        need = traffic_need(plan, estimate(plan))
        if need is not None:
            yield need


def _step(plan: RunPlan) -> Iterator[Need]:
    compute = plan.experiment.compute
    if compute.mode != "paced" or compute.ms_per_step == "auto":
        return
    from testbed.runtimes.machine_speed import sent_bytes_of, step_times

    sending_s = sent_bytes_of(plan.parameters, plan.overlay.degree) * carrier(plan).byte_s
    try:
        times = step_times(plan.experiment, len(plan.learners), sending_s, plan.ms_per_step * plan.time_scale)
    except (CodeProblem, ModelProblem, Impossible):
        return  # the run reports it with a node's name
    yield step_need(plan, times)


def meet(needs: Sequence[Need], say: Callable[[str], None], *, force: bool) -> None:
    """Raises PreflightRefused for shortages, unless forced; warns of the rest."""
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


def _words(need: Need) -> str:
    return f"{need.what}: {need.needed} needed, {need.there} there"


def in_gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.1f} GiB"
