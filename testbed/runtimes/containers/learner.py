"""The learner's process of a container: it loads data and model, reports to control, and runs.

Takes the container's paths and control's order, gives nothing; touches the node's journal, sockets and files of models.
Its memory, some 230 MB, is not shared with other containers.
"""

from __future__ import annotations

from testbed.code import CodeProblem
from testbed.node.compute_slots import ComputeSlots, slots_in
from testbed.node.data.problems import Impossible
from testbed.node.models.problems import ModelProblem
from testbed.plan.files import read_node_plan
from testbed.protocol.nodes import Unable
from testbed.protocol.zygote import Fork
from testbed.runtimes.containers import CONTROL_SOCKET, FABRIC_SOCKET
from testbed.runtimes.containers.container_paths import ContainerPaths
from testbed.runtimes.processes.model_files import ModelFiles
from testbed.runtimes.processes.node_process import NodePaths, NodeSetup, lead_life, tell_control


def live(inside: ContainerPaths, order: Fork) -> None:
    """One life of the node. What it prints goes to its log."""
    plan = read_node_plan(inside.node.plan)
    cores = slots_in(inside.slots)
    sockets = inside.sockets
    paths = NodePaths(inside.node, sockets / CONTROL_SOCKET, sockets / FABRIC_SOCKET, inside.slots, cores)
    slots = ComputeSlots(paths.slots, cores, plan.node.rank)
    try:
        with slots.one():  # imports compete for processors, too: all containers start at once
            from testbed.node.own import material

            made = material(plan.experiment, len(plan.learners), plan.seed, plan.ms_per_step)
    except CodeProblem as problem:
        tell_control(paths, Unable(problem.message, file=problem.file, line=problem.line))
        raise
    except (ModelProblem, Impossible) as problem:
        tell_control(paths, Unable(problem.message))
        raise
    finally:
        slots.close()
    own = made.own(plan.node.learner)
    setup = NodeSetup(
        paths=paths,
        rank=plan.node.rank,
        own=own,
        models=ModelFiles([inside.node] * len(plan.ranks), own.trainer.parameters),
        rejoin=order.rejoin,
        first_round=order.first_round,
        absent=frozenset(order.absent),
        leaves_on_sigterm=True,
    )
    lead_life(setup, plan)
