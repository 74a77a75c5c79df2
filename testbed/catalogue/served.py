"""Algorithms with a server: entries of `ALGORITHMS`.

Pure.
"""

from __future__ import annotations

from testbed.catalogue.algorithm_facts import PACKAGE, AlgorithmFacts, OutboxFacts, Paper
from testbed.catalogue.exchanges import Exchange, Sender, Sent, WithServer
from testbed.catalogue.options import Option, Type, Values, number, number_or_none
from testbed.catalogue.shares import part_of


def _with_some_clients(options: Values) -> Exchange:
    return WithServer(
        participation=number(options, "participation"),
        over_selection=number(options, "over_selection"),
        deadline_s=number_or_none(options, "deadline"),
        waits=True,
    )


def _with_all_clients(options: Values) -> Exchange:
    return WithServer(participation=1.0, over_selection=1.0, deadline_s=None, waits=options["mode"] == "sync")


def _with_clients_asked(options: Values, learners: int, _degree: float) -> tuple[Sent, ...]:
    wanted = part_of(learners, number(options, "participation"))
    asked = min(learners, part_of(wanted, number(options, "over_selection")))
    return _down("the server's model to each client asked", asked), _up("its model back", asked / learners, shared=True)


def _with_each_worker(_options: Values, learners: int, _degree: float) -> tuple[Sent, ...]:
    return _down("the server's model to each worker", learners), _up("a gradient back", 1.0, shared=False)


def _down(what: str, count: float) -> Sent:
    return Sent(what, Sender.SERVER, count, is_drawn=False, answers=False, part=1.0, shared=False)


def _up(what: str, count: float, *, shared: bool) -> Sent:
    return Sent(what, Sender.LEARNER, count, is_drawn=False, answers=True, part=1.0, shared=shared)


FEDAVG = AlgorithmFacts(
    name="fedavg",
    code=f"{PACKAGE}.fedavg:FedAvg",
    summary="federated averaging: a server has clients train its model, and averages theirs",
    options=(
        Option("participation", Type.SHARE, 1.0, "Part of the clients that a round is done with."),
        Option("weighted", Type.TRUTH, True, "Clients count by their number of samples."),
        Option("deadline", Type.DURATION, None, "The server goes on without clients that take longer."),
        Option("over_selection", Type.AT_LEAST_ONE, 1.0, "How many times more clients are asked than are waited for."),
    ),
    paper=Paper(
        authors="McMahan et al.",
        title="Communication-Efficient Learning of Deep Networks from Decentralized Data",
        venue="AISTATS",
        year=2017,
        arxiv="1602.05629",
    ),
    local_steps=None,
    exchange=_with_some_clients,
    messages=_with_clients_asked,
    outbox=OutboxFacts("fifo", in_flight=None),
    sharings=None,
    mutual=False,
    same_neighbours=False,
    waits_for="the server for the models of the clients it needs, or for `deadline`; a client for the server",
    remembers="nothing",
    crash_costs="of a client: the server waits as `missing` says, or until `deadline`; of the server: all wait for it",
)

PARAMETER_SERVER = AlgorithmFacts(
    name="parameter-server",
    code=f"{PACKAGE}.parameter_server:ParameterServer",
    summary="workers compute gradients, a server has the model and takes the steps",
    options=(
        Option("mode", ("sync", "async"), "sync", "All gradients of a round together, or each at once."),
        Option("damping", ("none", "staleness"), "none", "With `async`: old gradients count less."),
        Option("max_lead", Type.POSITIVE, None, "With `async`: by how many steps the fastest may be ahead."),
    ),
    paper=Paper(
        authors="Li et al.",
        title="Scaling Distributed Machine Learning with the Parameter Server",
        venue="OSDI",
        year=2014,
        arxiv=None,
    ),
    local_steps=1,
    exchange=_with_all_clients,
    messages=_with_each_worker,
    outbox=OutboxFacts("fifo", in_flight=None),
    sharings=("full",),
    mutual=False,
    same_neighbours=False,
    waits_for="the server for the gradients of all workers, with `mode: async` for any; a worker for the server",
    remembers="the server with `mode: async`: its version, and the number of gradients of each worker",
    crash_costs="of a worker: the server waits as `missing` says; of the server: all wait for it",
)
