"""Gossip learning: an entry of `ALGORITHMS`.

Pure.
"""

from __future__ import annotations

from testbed.catalogue.algorithm_facts import PACKAGE, AlgorithmFacts, OutboxFacts, Paper
from testbed.catalogue.exchanges import Exchange, Partners, Sender, Sent, WithPeers
from testbed.catalogue.options import Option, Type, Values, number


def _once_a_period(options: Values) -> Exchange:
    return WithPeers(Partners.NEIGHBOURS, fanout=1, waits=False, pause_s=number(options, "period"), tells_others=False)


def _with_one_neighbour(options: Values, _learners: int, degree: float) -> tuple[Sent, ...]:
    once = min(1.0, degree)
    pushed = _model("a model to a random neighbour, unless it has that one", once, answers=False)
    asked = Sent(
        "a request to the same neighbour", Sender.LEARNER, once, is_drawn=False, answers=False, part=0.0, shared=False
    )
    answered = _model("a model in answer, unless the neighbour that asked has that one", once, answers=True)
    match options["mode"]:
        case "push":
            return (pushed,)
        case "pull":
            return asked, answered
    return pushed, asked, answered


def _model(what: str, count: float, *, answers: bool) -> Sent:
    return Sent(what, Sender.LEARNER, count, is_drawn=True, answers=answers, part=1.0, shared=True)


GOSSIP = AlgorithmFacts(
    name="gossip",
    code=f"{PACKAGE}.gossip:Gossip",
    summary="gossip learning: once a period, exchange with a random neighbour; merge and train what arrives",
    options=(
        Option(
            "mode",
            ("push", "pull", "push-pull"),
            "push",
            "Once a period, send the model to a neighbour, ask for the neighbour's, or both.",
        ),
        Option("period", Type.DURATION, 1.0, "The time between two exchanges, which is a round."),
        Option("weights", ("age", "average"), "age", "Models count by their age in local steps, or all the same."),
        Option(
            "busy",
            ("latest", "queue"),
            "latest",
            "Of the models that arrive during a training, merge the last one, or all.",
        ),
    ),
    paper=Paper(
        authors="Ormándi et al.",
        title="Gossip Learning with Linear Models on Fully Distributed Data",
        venue="Concurrency and Computation: Practice and Experience",
        year=2013,
        arxiv="1109.1396",
    ),
    local_steps=None,
    exchange=_once_a_period,
    messages=_with_one_neighbour,
    outbox=OutboxFacts("latest", in_flight=None),
    sharings=None,
    mutual=False,
    same_neighbours=False,
    waits_for="nothing: a round is a period",
    remembers="the age of its model",
    crash_costs="what is sent to it; nothing waits for it",
)
