"""A process that has loaded a plan's code, data and model, and forks whatever needs them.

`python -m testbed.runtimes.processes.fork_server RUN SOCKETS FD PARENT CORES` forks evaluations of averaged models and
nothing else: it serves runs whose nodes are containers. The zygote (`zygote`) forks the nodes, too. Takes the run's
plan, and packets over the descriptor; gives news to control. It ends with control, and all that it has forked, too.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from testbed.code import CodeProblem
from testbed.errors import CouldNotStart
from testbed.node.compute_slots import ComputeSlots
from testbed.node.data.problems import Impossible
from testbed.node.models.problems import ModelProblem
from testbed.node.own import Material, material
from testbed.node.training_process import objects_shared
from testbed.parent import die_with_parent
from testbed.plan.files import read_plan
from testbed.plan.model import RunPlan
from testbed.protocol.message import MAX_MESSAGE_BYTES, encode
from testbed.protocol.nodes import Unable
from testbed.protocol.zygote import TO_ZYGOTE, Discard, EvaluateAverage, ToZygote, Warm
from testbed.rundir import RunDirectory
from testbed.runtimes.processes.average_process import AverageEvaluator
from testbed.runtimes.processes.model_files import ModelFiles
from testbed.runtimes.processes.shared_models import ModelSlots
from testbed.runtimes.tracking.process_records import Places

_BATCH = 32
"""Orders that are carried out together, before news are told again."""


class ForkServer:
    """Forks evaluations of averages, one after the other, and reaps its children."""

    def __init__(self, places: Places, made: Material, models: ModelSlots, control: socket.socket, cores: int) -> None:
        self._models = models
        self._control = control
        slots = partial(ComputeSlots, places.slots, cores, 0)
        self._averages = AverageEvaluator(models, made.evaluate_average, slots, control)
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._children: dict[int, tuple[int | None, int]] = {}
        """Rank and process id, by the descriptor that becomes readable when the process is over.

        Without a rank it is one that evaluates an average.
        """

    def serve(self) -> None:
        """Until control hangs up, then all children are killed; raises CouldNotStart where a node cannot be forked."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor != self._control.fileno():
                    self._reap(descriptor)
                elif not self._hear():
                    self._end()
                    return
            evaluator = self._averages.begin(self._let_go)
            if evaluator is not None:
                self._watch(None, evaluator)

    def _hear(self) -> bool:
        """Carries out orders that have come, a batch at most; False once control has hung up."""
        orders: list[ToZygote] = []
        with suppress(BlockingIOError):
            while len(orders) < _BATCH:
                packet = self._control.recv(MAX_MESSAGE_BYTES, socket.MSG_DONTWAIT)
                if not packet:
                    return False
                orders.append(TO_ZYGOTE.read(packet))
        self._obey(orders)
        return True

    def _obey(self, orders: Sequence[ToZygote]) -> None:
        for order in orders:
            match order:
                case EvaluateAverage():
                    self._averages.ask(order)
                case Discard(ranks=ranks, slots=slots):
                    self._models.clear(ranks, slots)

    def _let_go(self) -> None:
        """In a child, which keeps no descriptors of the others."""
        for sibling in self._children:
            os.close(sibling)

    def _watch(self, rank: int | None, pid: int) -> None:
        descriptor = os.pidfd_open(pid)
        self._poll.register(descriptor, select.POLLIN)
        self._children[descriptor] = (rank, pid)

    def _reap(self, descriptor: int) -> None:
        rank, pid = self._children.pop(descriptor)
        self._poll.unregister(descriptor)
        os.close(descriptor)
        _, status = os.waitpid(pid, 0)
        if rank is None:
            self._averages.over(status)
        else:
            self._node_died(rank, pid, status)

    def _node_died(self, rank: int, pid: int, status: int) -> None:
        """Only a zygote has nodes."""

    def _end(self) -> None:
        for _, pid in self._children.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def of_arguments(run: str, sockets: str, descriptor: str, parent: str) -> tuple[socket.socket, Places, RunPlan]:
    """The way to control, the run's places and its plan; from now on this process ends with its parent."""
    die_with_parent(int(parent))
    places = Places(RunDirectory(Path(run)), Path(sockets))
    return socket.socket(fileno=int(descriptor)), places, read_plan(places.run.plan)


def loaded(plan: RunPlan, control: socket.socket) -> Material | None:
    """The plan's code, data and model; None where they cannot be had, and control has been told why."""
    try:
        return material(plan.experiment, len(plan.learners), plan.seed, plan.ms_per_step)
    except CodeProblem as problem:
        control.send(encode(Unable(problem.message, file=problem.file, line=problem.line)))
    except (ModelProblem, Impossible) as problem:
        control.send(encode(Unable(problem.message)))
    return None


def serve(server: ForkServer, control: socket.socket) -> None:
    """Until control is gone; control is told when that ends early."""
    try:
        server.serve()
    except CouldNotStart as problem:
        control.send(encode(Unable(problem.message)))


def end_process() -> None:
    """At once: what the interpreter would take down piece by piece, half a second long, goes with the process."""
    sys.stderr.flush()
    os._exit(0)


def main(arguments: list[str]) -> None:
    *place, cores = arguments
    control, places, plan = of_arguments(*place)
    made = loaded(plan, control)
    if made is None:
        return
    models = ModelFiles([places.run.node(node.name) for node in plan.nodes], made.trainer.parameters)
    server = ForkServer(places, made, models, control, int(cores))
    with objects_shared():
        control.send(encode(Warm()))
        serve(server, control)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # control decides when it is over
    main(sys.argv[1:])
    end_process()
