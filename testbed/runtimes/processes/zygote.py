"""The zygote: everything loaded and warmed once, then every node is forked from it.

`python -m testbed.runtimes.processes.zygote RUN SOCKETS FD PARENT LOOPBACK MODELS CORES SANDBOX`

Takes the run's plan, and packets over the descriptor; gives node processes, and news of their deaths. A fork costs a
few milliseconds and shares all memory that is not written to. It ends, and all nodes with it, when control is gone.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path

from testbed.code import CodeProblem
from testbed.engines.fabric.sockets import node_socket
from testbed.engines.kernel import raise_open_file_limit
from testbed.errors import CouldNotStart
from testbed.isolation.launch import enter_node_sandbox
from testbed.isolation.namespaces import ProcessNamespaces
from testbed.isolation.sandbox import Sandbox
from testbed.isolation.view import PathKind, VisiblePath
from testbed.limits import keep_within, limits_for
from testbed.node.compute_slots import ComputeSlots
from testbed.node.data.problems import Impossible
from testbed.node.models.problems import ModelProblem
from testbed.node.own import Material, material
from testbed.node.training_process import fork_worker, objects_shared
from testbed.parent import die_with_parent
from testbed.plan.containers import limits_of
from testbed.plan.files import read_plan
from testbed.plan.model import RunPlan
from testbed.protocol.message import MAX_MESSAGE_BYTES, encode
from testbed.protocol.nodes import Unable
from testbed.protocol.zygote import TO_ZYGOTE, Died, Discard, EvaluateAverage, Fork, Forked, ToZygote, Warm
from testbed.rundir import RunDirectory
from testbed.runtimes.processes.average_process import AverageEvaluator
from testbed.runtimes.processes.credentials import send_from
from testbed.runtimes.processes.model_files import ModelFiles
from testbed.runtimes.processes.node_process import NodePaths, NodeSetup, live, tell_control
from testbed.runtimes.processes.shared_models import MEMORY, ModelSlots, SharedModels
from testbed.runtimes.tracking.process_records import Places
from testbed.topologies.event_checks import starting_absent


def main(arguments: list[str]) -> None:
    """LOOPBACK is the block of a run without an engine, else 0; MODELS, where nodes leave models: `memory` or `files`.

    SANDBOX is a descriptor; empty where nodes cannot be kept apart, or need not be.
    """
    run, sockets, descriptor, parent, loopback, kind, cores, told = arguments
    die_with_parent(int(parent))
    raise_open_file_limit()  # in a full overlay, a node has some for each of the others
    control = socket.socket(fileno=int(descriptor))
    places = Places(RunDirectory(Path(run)), Path(sockets))
    plan = read_plan(places.run.plan)
    try:
        made = material(plan.experiment, len(plan.learners), plan.seed, plan.ms_per_step)
    except CodeProblem as problem:
        control.send(encode(Unable(problem.message, file=problem.file, line=problem.line)))
        return
    except (ModelProblem, Impossible) as problem:
        control.send(encode(Unable(problem.message)))
        return
    with objects_shared():
        control.send(encode(Warm()))
        directories = [places.run.node(node.name) for node in plan.nodes]
        parameters = made.trainer.parameters
        models = SharedModels(len(directories), parameters) if kind == MEMORY else ModelFiles(directories, parameters)
        isolation = NodeIsolation(Sandbox.in_file(int(told))) if told else None
        zygote = Zygote(places, plan, made, models, control, int(loopback), int(cores), isolation)
        try:
            zygote.serve()
        except CouldNotStart as problem:
            control.send(encode(Unable(problem.message)))


class Zygote:
    """Forks nodes, and tells of their deaths."""

    def __init__(
        self,
        places: Places,
        plan: RunPlan,
        made: Material,
        models: ModelSlots,
        control: socket.socket,
        loopback: int,
        cores: int,
        isolation: NodeIsolation | None,
    ) -> None:
        topology = plan.load_topology()
        self._absent = frozenset(starting_absent(topology))
        model_bytes = 4 * made.trainer.parameters
        self._limits = [limits_for(each.memory_bytes, model_bytes) for each in limits_of(plan, topology)]
        self._nodes = plan.nodes
        self._places = places
        self._owns = [made.own(node.learner) for node in plan.nodes]
        self._models = models
        self._cores = cores
        self._isolation = isolation
        slots = partial(ComputeSlots, places.slots, cores, 0)
        self._averages = AverageEvaluator(self._models, made.evaluate_average, slots, control)
        self._control = control
        self._loopback = loopback
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._children: dict[int, tuple[int | None, int]] = {}
        """Rank and process id, by the descriptor that becomes readable when the process is over.

        Without a rank it is one that evaluates an average.
        """

    def serve(self) -> None:
        """Until control hangs up; then every node is killed. Raises CouldNotStart for a node that cannot be forked."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._control.fileno():
                    packet = self._control.recv(MAX_MESSAGE_BYTES)
                    if not packet:
                        self._end()
                        return
                    self._obey(TO_ZYGOTE.read(packet))
                else:
                    self._reap(descriptor)
            evaluator = self._averages.begin(self._let_go)
            if evaluator is not None:
                self._watch(None, evaluator)

    def _obey(self, order: ToZygote) -> None:
        match order:
            case Fork():
                self._fork(order)
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

    def _fork(self, order: Fork) -> None:
        rank = order.rank
        self._averages.clear_before_life(rank)
        name = self._nodes[rank].name
        paths = NodePaths(
            directory=self._places.run.node(name),
            control=self._places.control_socket,
            fabric=node_socket(self._places.sockets, rank),
            slots=self._places.slots,
            cores=self._cores,
        )
        setup = NodeSetup(
            paths=paths,
            rank=rank,
            own=self._owns[rank],
            models=self._models,
            rejoin=order.rejoin,
            first_round=order.first_round,
            absent=self._absent,
            loopback=self._loopback,
        )
        parent, isolation, limits = os.getpid(), self._isolation, self._limits[rank]

        def body() -> None:
            self._control.close()
            self._let_go()
            if isolation is not None:
                isolation.keep(paths)
            self._models.keep_only(rank)
            keep_within(limits, has_own_users=isolation is not None)
            live(setup, parent)

        try:
            with nullcontext() if isolation is None else isolation.processes():
                pid = fork_worker(body)
        except OSError as problem:
            raise CouldNotStart(f"cannot start the process of {name}: {problem.strerror}") from None
        self._watch(rank, pid)
        with suppress(BrokenPipeError, ConnectionResetError):  # control has gone: the next look at it says so
            news = encode(Forked(order.rank, pid))
            if isolation is None:
                self._control.send(news)
            else:
                send_from(self._control, news, pid)

    def _reap(self, descriptor: int) -> None:
        rank, pid = self._children.pop(descriptor)
        self._poll.unregister(descriptor)
        os.close(descriptor)
        _, status = os.waitpid(pid, 0)
        if rank is None:
            self._averages.over(status)
            return
        with suppress(OSError):  # control has gone: the next look at it says so
            self._control.send(encode(Died(rank, pid, status)))

    def _end(self) -> None:
        for _, pid in self._children.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


class NodeIsolation:
    """How the zygote keeps nodes apart: each has a namespace of processes, and sees its own folders and no others."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._shared = sandbox.shared
        self._processes = ProcessNamespaces()

    def processes(self) -> AbstractContextManager[None]:
        """Within it a node is forked: it is the first process of a namespace, and all others there end with it."""
        return self._processes.another()

    def close(self) -> None:
        """In a node, for which there is no way back."""
        self._processes.close()

    def keep(self, paths: NodePaths) -> None:
        """The calling process, forked to be a node, sees what is its own; tells control, and raises, when denied."""
        self.close()
        own = (
            VisiblePath(str(paths.directory.path), PathKind.WRITE),
            VisiblePath(str(paths.directory.plan)),
            VisiblePath(str(paths.fabric.parent), PathKind.WRITE),
            VisiblePath(str(paths.control), PathKind.WRITE),
            VisiblePath(str(paths.slots)),
        )
        try:
            enter_node_sandbox((*self._shared, *own))
        except OSError as problem:
            words = f"cannot be kept apart from other nodes: {problem.strerror or problem}"
            tell_control(paths, Unable(words, refused=True))
            raise


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # control decides when it is over
    main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(0)  # what would be taken down piece by piece, half a second long, goes with the process
