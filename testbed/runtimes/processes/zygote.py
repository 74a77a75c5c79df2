"""The zygote: everything loaded and warmed once, then every node is forked from it.

`python -m testbed.runtimes.processes.zygote RUN SOCKETS FD PARENT CORES LOOPBACK SANDBOX`

Takes the run's plan, and packets over the descriptor; gives node processes, and news of their deaths. A fork costs a
few milliseconds and shares all memory that is not written to. It ends, and all nodes with it, when control is gone.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial

from testbed.engines.fabric.sockets import node_socket
from testbed.engines.kernel import raise_open_file_limit
from testbed.errors import CouldNotStart
from testbed.isolation.launch import enter_node_sandbox
from testbed.isolation.namespaces import ProcessNamespaces
from testbed.isolation.sandbox import Sandbox
from testbed.isolation.view import PathKind, VisiblePath
from testbed.limits import keep_within, limits_for
from testbed.node.own import Material
from testbed.node.training_process import fork_worker, objects_shared
from testbed.plan.containers import limits_of
from testbed.plan.files import split
from testbed.plan.model import RunPlan
from testbed.protocol.message import encode
from testbed.protocol.nodes import Unable
from testbed.protocol.zygote import Died, Fork, Forked, ToZygote, Warm
from testbed.runtimes.processes.credentials import send_from
from testbed.runtimes.processes.fork_server import ForkServer, end_process, loaded, of_arguments, serve
from testbed.runtimes.processes.node_process import NodePaths, NodeSetup, live, tell_control
from testbed.runtimes.processes.shared_models import SharedModels
from testbed.runtimes.tracking.process_records import Places
from testbed.topologies.event_checks import starting_absent


def main(arguments: list[str]) -> None:
    """LOOPBACK is the block of a run without an engine, else 0.

    SANDBOX is a descriptor; empty where nodes cannot be kept apart, or need not be.
    """
    *place, cores, loopback, told = arguments
    control, places, plan = of_arguments(*place)
    raise_open_file_limit()  # in a full overlay, a node has some for each of the others
    made = loaded(plan, control)
    if made is None:
        return
    models = SharedModels(len(plan.nodes), made.trainer.parameters)
    isolation = NodeIsolation(Sandbox.in_file(int(told))) if told else None
    zygote = Zygote(places, plan, made, models, control, int(cores), int(loopback), isolation)
    with objects_shared():
        control.send(encode(Warm()))
        serve(zygote, control)


class Zygote(ForkServer):
    """Forks nodes, and tells control of their deaths."""

    def __init__(
        self,
        places: Places,
        plan: RunPlan,
        made: Material,
        models: SharedModels,
        control: socket.socket,
        cores: int,
        loopback: int,
        isolation: NodeIsolation | None,
    ) -> None:
        super().__init__(places, made, models, control, cores)
        topology = plan.load_topology()
        self._absent = frozenset(starting_absent(topology))
        model_bytes = 4 * made.trainer.parameters
        self._limits = [limits_for(each.memory_bytes, model_bytes) for each in limits_of(plan, topology)]
        self._nodes = plan.nodes
        self._shares = tuple(split(plan))
        self._places = places
        self._owns = [made.own(node.learner) for node in plan.nodes]
        self._cores = cores
        self._isolation = isolation
        self._loopback = loopback

    def _obey(self, orders: Sequence[ToZygote]) -> None:
        super()._obey(orders)
        self._fork([self._setup(order) for order in orders if isinstance(order, Fork)])

    def _setup(self, order: Fork) -> NodeSetup:
        rank = order.rank
        self._averages.clear_before_life(rank)
        paths = NodePaths(
            directory=self._places.run.node(self._nodes[rank].name),
            control=self._places.control_socket,
            fabric=node_socket(self._places.sockets, rank),
            slots=self._places.slots,
            cores=self._cores,
        )
        return NodeSetup(
            paths=paths,
            rank=rank,
            own=self._owns[rank],
            models=self._models,
            rejoin=order.rejoin,
            first_round=order.first_round,
            absent=self._absent,
            loopback=self._loopback,
        )

    def _fork(self, setups: Sequence[NodeSetup]) -> None:
        """Forks these nodes, and does nothing else in between.

        What this process writes to between two forks, the first of the two children alone keeps as it was.
        """
        parent = os.getpid()
        pids = []
        try:
            for setup in setups:
                with nullcontext() if self._isolation is None else self._isolation.processes():
                    pids.append(fork_worker(partial(self._live, setup, parent)))
        except OSError as problem:
            name = self._nodes[setups[len(pids)].rank].name
            raise CouldNotStart(f"cannot start the process of {name}: {problem.strerror}") from None
        finally:
            for setup, pid in zip(setups, pids, strict=False):
                self._watch(setup.rank, pid)
                self._tell_of(setup.rank, pid)

    def _live(self, setup: NodeSetup, parent: int) -> None:
        """A node's life, in its own process."""
        self._control.close()
        self._let_go()
        if self._isolation is not None:
            self._isolation.keep(setup.paths)
        self._models.keep_only(setup.rank)
        keep_within(self._limits[setup.rank], has_own_users=self._isolation is not None)
        live(setup, self._shares[setup.rank], parent)

    def _tell_of(self, rank: int, pid: int) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # control has gone: the next look at it says so
            news = encode(Forked(rank, pid))
            if self._isolation is None:
                self._control.send(news)
            else:
                send_from(self._control, news, pid)

    def _node_died(self, rank: int, pid: int, status: int) -> None:
        with suppress(OSError):  # control has gone: the next look at it says so
            self._control.send(encode(Died(rank, pid, status)))


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
    end_process()
