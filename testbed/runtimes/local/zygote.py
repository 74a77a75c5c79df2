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
from pathlib import Path
from random import Random

from testbed.code import CodeProblem
from testbed.node.choose import choose_algorithm, choose_sharing
from testbed.node.data.dataset import Kind
from testbed.node.data.of_experiment import share_out
from testbed.node.data.partition import test_parts
from testbed.node.data.problems import Impossible
from testbed.node.evaluation_samples import evaluation_parts
from testbed.node.models.problems import ModelProblem
from testbed.node.real_compute import Own
from testbed.node.trainer_of import make_trainer
from testbed.node.training_process import fork_worker, objects_shared
from testbed.plan.files import read_plan
from testbed.plan.model import RunPlan
from testbed.protocol import MAX_MESSAGE_BYTES, TO_ZYGOTE, Died, Fork, Forked, Unable, Warm, encode
from testbed.rundir import RunDirectory
from testbed.runtimes.local.node_process import Birth, live
from testbed.runtimes.local.parent import die_with_parent
from testbed.runtimes.local.places import Places


def main(arguments: list[str]) -> None:
    """The last argument is the loopback block of a run without an engine, else 0."""
    run, sockets, descriptor, parent, loopback = arguments
    die_with_parent(int(parent))
    control = socket.socket(fileno=int(descriptor))
    places = Places(RunDirectory(Path(run)), Path(sockets))
    plan = read_plan(places.run.plan)
    try:
        owns = prepare(plan)
    except CodeProblem as problem:
        control.send(encode(Unable(problem.message, file=problem.file, line=problem.line)))
        return
    except (ModelProblem, Impossible) as problem:
        control.send(encode(Unable(problem.message)))
        return
    with objects_shared():
        control.send(encode(Warm()))
        Zygote(places, [node.name for node in plan.nodes], owns, control, int(loopback)).serve()


def prepare(plan: RunPlan) -> list[Own]:
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
    return [
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


class Zygote:
    """Forks nodes, and tells of their deaths."""

    def __init__(
        self, places: Places, names: list[str], owns: list[Own], control: socket.socket, loopback: int
    ) -> None:
        """Each node's name and what it computes with, by rank."""
        self._names = names
        self._places = places
        self._owns = owns
        self._control = control
        self._loopback = loopback
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._children: dict[int, tuple[int, int]] = {}
        """Rank and process id, by the descriptor that becomes readable when the process is over."""

    def serve(self) -> None:
        """Until control hangs up; then every node is killed."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._control.fileno():
                    packet = self._control.recv(MAX_MESSAGE_BYTES)
                    if not packet:
                        self._end()
                        return
                    self._fork(TO_ZYGOTE.read(packet))
                else:
                    self._bury(descriptor)

    def _fork(self, order: Fork) -> None:
        rank = order.rank
        birth = Birth(
            places=self._places,
            rank=rank,
            name=self._names[rank],
            own=self._owns[rank],
            rejoin=order.rejoin,
            first_round=order.first_round,
            parent=os.getpid(),
            loopback=self._loopback,
        )

        def body() -> None:
            self._control.close()
            for sibling in self._children:
                os.close(sibling)
            live(birth)

        pid = fork_worker(body)
        descriptor = os.pidfd_open(pid)
        self._poll.register(descriptor, select.POLLIN)
        self._children[descriptor] = (order.rank, pid)
        with suppress(OSError):
            self._control.send(encode(Forked(order.rank, pid)))

    def _bury(self, descriptor: int) -> None:
        rank, pid = self._children.pop(descriptor)
        self._poll.unregister(descriptor)
        os.close(descriptor)
        _, status = os.waitpid(pid, 0)
        with suppress(OSError):  # control has gone: the next look at it says so
            self._control.send(encode(Died(rank, pid, status)))

    def _end(self) -> None:
        for _, pid in self._children.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # control decides when it is over
    main(sys.argv[1:])
