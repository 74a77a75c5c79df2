"""What a learner's container may use: memory, processors, processes; and how often it is started again.

Takes a plan and its topology, gives figures; pure. They are limits, not what is set aside: a container that needs less
takes less.
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
"""A process that has loaded torch for itself holds 217 to 245 MB; ZeroMQ and the interpreter's own, some 26 MB more."""
LEAST_BYTES = 512 * _MIB
"""With room for data, a minibatch and an evaluation."""
UNKNOWN_BYTES = 2048 * _MIB
"""Of a model whose size nobody has told, and which may be large."""
MODEL_COPIES = 8 + SLOTS
"""Of a model that a node has at a time, those on their way and those left to be averaged included; and one for each
peer."""
_SLACK = 1.5
"""Beyond what is counted: the kernel kills who goes past the limit."""
LEARNER_PIDS, PART_PIDS = limits.PROCESSES, 256
"""Processes and threads of a learner's container, and of one that serves the run."""
TMP_OPTIONS, LOG_SIZE = limits.TMP_OPTIONS, "16m"
"""What any of them may write: to /tmp, which is memory of its own; and of what it says, that the Engine keeps."""
LEARNER_SHARES, PART_SHARES, FABRIC_SHARES = 64, 256, 8192
"""How much of a processor each gets where it is wanted by several, compared with others; 1024 is usual. That a thread
trains with the lowest priority means nothing to other containers: packets would wait for it. So would learners for the
trying of averages, which is control's."""
_PACED_PROCESSORS = 1.0
"""A learner trains with one thread."""
_GOES = (NodeAction.CRASH, NodeAction.LEAVE)


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one node's container."""

    memory_bytes: int
    processors: float | None
    """None: as many as there are."""
    returns: int
    """How often it may be started again after a death."""


def needed_memory_bytes(plan: RunPlan, rank: int) -> int:
    """What a node's container may need: a process with torch, and copies of the model; in steps of 64 MiB.

    At least 512 MiB. Of a model of unknown size, 512 MiB for a built-in one as it comes, else 2 GiB.
    """
    if plan.parameters is None:
        return LEAST_BYTES if has_usual_size(plan) else UNKNOWN_BYTES
    wanted = int(_PROCESS_BYTES + _SLACK * models_bytes(plan, rank))
    return max(LEAST_BYTES, -(-wanted // _STEP_BYTES) * _STEP_BYTES)


def models_bytes(plan: RunPlan, rank: int) -> int:
    """All copies of the model that a node may have at a time; nothing where its size is not known."""
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
    """By rank. Memory is the device's own, where the topology says so and a learner fits into it."""
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
    """The device's own; else one where steps are paced: what works as fast as it can is held up by nothing."""
    if declared is not None:
        return declared
    return _PACED_PROCESSORS if plan.experiment.compute.mode == "paced" else None


def comebacks(topology: Topology) -> Counter[int]:
    """How often events bring each node back at most, by rank; that it joins for the first time does not count."""
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
