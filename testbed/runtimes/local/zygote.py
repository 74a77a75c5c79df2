"""The zygote: everything loaded and warmed once, then every node is forked from it.

`python -m testbed.runtimes.local.zygote RUN SOCKETS FD PARENT LOOPBACK`: takes the run's plan, and packets over the
descriptor; gives node processes, and news of their deaths. A fork costs a few milliseconds and shares all that is not
written to. It ends, and all nodes with it, when control is gone.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from testbed.code import CodeProblem
from testbed.engines.open_files import allow_most_files
from testbed.engines.parent import die_with_parent
from testbed.errors import CouldNotStart
from testbed.node.choose import choose_algorithm, choose_sharing
from testbed.node.compute_slots import ComputeSlots
from testbed.node.data.dataset import Kind
from testbed.node.data.of_experiment import share_out
from testbed.node.data.partition import test_parts
from testbed.node.data.problems import Impossible
from testbed.node.evaluation_samples import evaluation_parts
from testbed.node.models.problems import ModelProblem
from testbed.node.real_compute import Own
from testbed.node.trainer_of import make_trainer
from testbed.node.training import Trainer
from testbed.node.training_batch import Indices
from testbed.node.training_process import fork_worker, objects_shared
from testbed.plan.files import read_plan
from testbed.plan.model import RunPlan
from testbed.protocol import (
    MAX_MESSAGE_BYTES,
    TO_ZYGOTE,
    Died,
    Discard,
    Fork,
    Forked,
    Judge,
    ToZygote,
    Unable,
    Warm,
    encode,
)
from testbed.rundir import RunDirectory
from testbed.runtimes.local.judge import Judges
from testbed.runtimes.local.node_process import CORES, Birth, live
from testbed.runtimes.local.places import Places
from testbed.runtimes.local.shelf import Shelf
from testbed.topologies.event_checks import starting_absent


def main(arguments: list[str]) -> None:
    """The last argument is the loopback block of a run without an engine, else 0."""
    run, sockets, descriptor, parent, loopback = arguments
    die_with_parent(int(parent))
    allow_most_files()  # in a full overlay, a node has some for each of the others
    control = socket.socket(fileno=int(descriptor))
    places = Places(RunDirectory(Path(run)), Path(sockets))
    plan = read_plan(places.run.plan)
    try:
        warmed = prepare(plan)
    except CodeProblem as problem:
        control.send(encode(Unable(problem.message, file=problem.file, line=problem.line)))
        return
    except (ModelProblem, Impossible) as problem:
        control.send(encode(Unable(problem.message)))
        return
    with objects_shared():
        control.send(encode(Warm()))
        absent = frozenset(starting_absent(plan.load_topology()))
        zygote = Zygote(places, [node.name for node in plan.nodes], absent, warmed, control, int(loopback))
        try:
            zygote.serve()
        except CouldNotStart as problem:
            control.send(encode(Unable(problem.message)))


@dataclass(frozen=True)
class Warmed:
    """What all forks share."""

    owns: list[Own]
    """What each node computes with, by rank."""
    trainer: Trainer
    tests: Indices
    """Test samples that averages of models are tried on."""


def prepare(plan: RunPlan) -> Warmed:
    """Data, model and one training step: what a fork then shares."""
    experiment = plan.experiment
    data = share_out(experiment, len(plan.learners), plan.seed)
    trainer = make_trainer(experiment, data.dataset, plan.seed)
    trainer.warm()
    with suppress(CodeProblem):  # every node will meet it, and tell
        choose_algorithm(experiment.algorithm.name, experiment.algorithm.options)
        choose_sharing(experiment.sharing.name, experiment.sharing.options, Random(0))  # noqa: S311 - draws nothing
    tests = test_parts(data.dataset, data.parts)
    tried = evaluation_parts(data.dataset, tests, experiment.evaluation.samples, plan.seed)
    ratings = data.dataset.kind is Kind.RATINGS
    owns = [
        Own(
            trainer=trainer,
            samples=data.parts[node.learner or 0],
            tests=tried[-1 if node.learner is None else node.learner],
            tested_on="own-test" if ratings else "test",
            rooted_loss=ratings,
            evaluation_s=plan.ms_per_step / 1000 * experiment.evaluation.samples / experiment.training.batch / 3,
        )
        for node in plan.nodes
    ]
    return Warmed(owns, trainer, tried[-1])


class Zygote:
    """Forks nodes, and tells of their deaths."""

    def __init__(
        self,
        places: Places,
        names: list[str],
        absent: frozenset[int],
        warmed: Warmed,
        control: socket.socket,
        loopback: int,
    ) -> None:
        """Each node's name, by rank, and the ranks of those that join later."""
        self._absent = absent
        self._names = names
        self._places = places
        self._owns = warmed.owns
        self._shelf = Shelf(len(names), warmed.trainer.parameters)
        evaluate = partial(warmed.trainer.evaluate, indices=warmed.tests, on=warmed.trainer.dataset.test)
        self._judges = Judges(self._shelf, evaluate, partial(ComputeSlots, places.slots, CORES, 0), control)
        self._control = control
        self._loopback = loopback
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._children: dict[int, tuple[int | None, int]] = {}
        """Rank and process id, by the descriptor that becomes readable when the process is over; no rank: a judge."""

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
                    self._bury(descriptor)
            judge = self._judges.begin(self._let_go)
            if judge is not None:
                self._watch(None, judge)

    def _obey(self, order: ToZygote) -> None:
        match order:
            case Fork():
                self._fork(order)
            case Judge():
                self._judges.ask(order)
            case Discard(ranks=ranks, slots=slots):
                self._shelf.clear(ranks, slots)

    def _let_go(self) -> None:
        """In a child: the others are none of its business."""
        for sibling in self._children:
            os.close(sibling)

    def _watch(self, rank: int | None, pid: int) -> None:
        descriptor = os.pidfd_open(pid)
        self._poll.register(descriptor, select.POLLIN)
        self._children[descriptor] = (rank, pid)

    def _fork(self, order: Fork) -> None:
        rank = order.rank
        self._judges.clear_before_life(rank)
        birth = Birth(
            places=self._places,
            rank=rank,
            name=self._names[rank],
            own=self._owns[rank],
            shelf=self._shelf,
            rejoin=order.rejoin,
            first_round=order.first_round,
            parent=os.getpid(),
            loopback=self._loopback,
            absent=self._absent,
        )

        def body() -> None:
            self._control.close()
            self._let_go()
            live(birth)

        try:
            pid = fork_worker(body)
        except OSError as problem:
            raise CouldNotStart(f"cannot start the process of {self._names[rank]}: {problem.strerror}") from None
        self._watch(rank, pid)
        with suppress(OSError):
            self._control.send(encode(Forked(order.rank, pid)))

    def _bury(self, descriptor: int) -> None:
        rank, pid = self._children.pop(descriptor)
        self._poll.unregister(descriptor)
        os.close(descriptor)
        _, status = os.waitpid(pid, 0)
        if rank is None:
            self._judges.over(status)
            return
        with suppress(OSError):  # control has gone: the next look at it says so
            self._control.send(encode(Died(rank, pid, status)))

    def _end(self) -> None:
        for _, pid in self._children.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # control decides when it is over
    main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(0)  # what would be taken down piece by piece, half a second long, goes with the process
