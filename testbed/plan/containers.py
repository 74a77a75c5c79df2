"""Limits of a learner's container: memory, processors, processes, and restarts.

Takes a plan and its topology, gives limits; pure. Limits are not reservations: a container that needs less takes less.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from testbed import limits
from testbed.catalogue.models import MODELS
from testbed.code import is_code
from testbed.plan.model import RunPlan
from testbed.protocol.nodes import SLOTS
from testbed.topologies.event_checks import starting_absent
from testbed.topologies.model import NodeAction, NodeEvent, Topology

_MIB = 1 << 20
_STEP_BYTES = 64 * _MIB
_PROCESS_BYTES = 320 * _MIB
"""A process that has loaded torch for itself holds 217 to 245 MB; the rest of a node some 26 MB more."""
LEAST_BYTES = 512 * _MIB
"""Includes data, a minibatch and an evaluation."""
UNKNOWN_BYTES = 2048 * _MIB
"""Memory for a model of unknown size, which may be large."""
MODEL_COPIES = 8 + SLOTS
"""Copies of a model in a node's memory at a time, including those under way and those waiting to be averaged; one per
peer comes on top."""
_SLACK = 1.5
"""Factor on top of the counted memory: the kernel kills processes above the limit."""
LEARNER_PIDS, PART_PIDS = limits.PROCESSES, 256
"""Processes and threads of a learner's container, and of a container of the fabric or control."""
TMP_OPTIONS, LOG_SIZE = limits.TMP_OPTIONS, "16m"
"""Limits of a container's /tmp, which is in memory, and of its log, which the Docker Engine keeps."""
LEARNER_SHARES, PART_SHARES, FABRIC_SHARES = 64, 256, 8192
"""CPU shares of learners, other parts and the fabric, used when processors are contended; Docker's default is 1024. The
low priority of a training thread counts only inside its container, so without shares packets would wait for training,
and learners for control's evaluation of averages."""
_PACED_PROCESSORS = 1.0
"""A learner trains with one thread."""
_GOES = (NodeAction.CRASH, NodeAction.LEAVE)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one node's container."""

    memory_bytes: int
    processors: float | None
    """None: no limit."""
    returns: int
    """How often the container may be started again after it has ended."""


def needed_memory_bytes(plan: RunPlan, rank: int) -> int:
    """The memory that a node's container may need: a process with torch, and copies of the model; in steps of 64 MiB.

    At least 512 MiB. If the model's size is unknown: 512 MiB for a built-in one without options, else 2 GiB.
    """
    if plan.parameters is None:
        return LEAST_BYTES if has_usual_size(plan) else UNKNOWN_BYTES
    wanted = int(_PROCESS_BYTES + _SLACK * models_bytes(plan, rank))
    return max(LEAST_BYTES, -(-wanted // _STEP_BYTES) * _STEP_BYTES)


def models_bytes(plan: RunPlan, rank: int) -> int:
    """Bytes of all copies of the model that a node may have at a time; 0 if its size is unknown."""
    return 4 * (plan.parameters or 0) * (MODEL_COPIES + _peers(plan, rank))


def has_usual_size(plan: RunPlan) -> bool:
    """Whether the model is one whose size is known to be small: built in, without options."""
    model = plan.experiment.model
    return not is_code(model.name) and MODELS[model.name].is_usual(model.options)


def _peers(plan: RunPlan, rank: int) -> int:
    if rank == plan.server:
        return len(plan.learners)
    if plan.overlay.neighbours is not None:
        learner = plan.nodes[rank].learner
        return 1 if learner is None else max(1, len(plan.overlay.neighbours[learner]))
    return max(1, plan.overlay.degree or 1)


def limits_of(plan: RunPlan, topology: Topology) -> list[Limits]:
    """Limits by rank. Memory is that of the service's `memory`, if a learner fits into it."""
    returns = comebacks(topology)
    found = []
    for node in topology.nodes:
        needed = needed_memory_bytes(plan, node.rank)
        found.append(
            Limits(
                max(needed, node.service.memory_bytes or 0), _processors(plan, node.service.cpus), returns[node.rank]
            )
        )
    return found


def _processors(plan: RunPlan, declared: float | None) -> float | None:
    """The service's `cpus`; else one if steps are paced, and no limit if they are measured."""
    if declared is not None:
        return declared
    return _PACED_PROCESSORS if plan.experiment.compute.mode == "paced" else None


def comebacks(topology: Topology) -> Counter[int]:
    """How often events bring each node back at most, by rank; a first join does not count."""
    absent = starting_absent(topology)
    joins: Counter[int] = Counter()
    back: Counter[int] = Counter()
    gone: set[int] = set()
    for event in topology.events:
        if not isinstance(event, NodeEvent):
            continue
        ranks = topology.select_all(event.targets)
        count = event.when.count()
        if event.action is NodeAction.JOIN:
            joins.update(dict.fromkeys(ranks, count))
        elif event.action in _GOES:
            gone |= set(ranks)
            if event.for_s is not None:
                back.update(dict.fromkeys(ranks, count))
    for rank in gone:
        back[rank] += max(0, joins[rank] - (rank in absent))
    return back
