"""Draws one run of an algorithm from a seed: gives its plan and what may be expected of it; touches nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import Any

from soaks.algorithm_runs.network import Network, drawn_network
from testbed.catalogue.algorithm_facts import AlgorithmFacts
from testbed.catalogue.algorithms import ALGORITHMS
from testbed.catalogue.exchanges import Partners, WithPeers, WithServer
from testbed.catalogue.options import Option, Type
from testbed.catalogue.sharings import SHARINGS
from testbed.code import CodeProblem
from testbed.errors import InvalidInput
from testbed.experiment.language import Experiment
from testbed.node.choose import choose_algorithm
from testbed.plan.make import make_plan
from testbed.plan.model import RunPlan
from testbed.topologies.load import load_bytes
from testbed.topologies.source import Form

TOPOLOGY = "topology.yaml"
_MOST_DRAWS = 40
"""Of one seed. Options, sharings and overlays that do not fit together are refused, and all is drawn again."""
_HEADERS_BYTES = 600
"""Of a message, and of the packets that carry it."""
_MOST_PARAMETERS = 400
_SLOWEST_FACTOR = 5
_LONGEST_OPTION_S = 1.5
_DATA: tuple[dict[str, Any], ...] = (
    {"data": {"name": "digits"}, "model": {"name": "mlp", "hidden": 4}},
    {"data": {"name": "synthetic", "samples": 400, "classes": 3, "features": 10}},
)
"""Small, so that hundreds of runs take minutes; links are slow in proportion."""


@dataclass(frozen=True)
class Story:
    """An experiment as its file says it, and its network."""

    algorithm: str
    seed: int
    draws: int
    """How many it took until one was valid."""
    experiment: dict[str, Any]
    network: Network

    @property
    def text(self) -> str:
        """The experiment's file: JSON is YAML."""
        return json.dumps(self.experiment, indent=1)

    @property
    def then(self) -> str:
        """What nodes do that miss a peer."""
        return str(self.experiment["missing"]["then"])

    @property
    def may_miss(self) -> bool:
        """Whether a node may fail because another one is missing, as the experiment wants it."""
        facts = ALGORITHMS[self.algorithm]
        if self.then == "abort" or (facts.needs_server and 0 in self.network.gone):
            return True
        return self.then == "wait" and (bool(self.network.gone) or self._drops_what_others_wait_for)

    @property
    def _drops_what_others_wait_for(self) -> bool:
        """A policy that drops a model for a newer one takes it from a slow neighbour that still waits for it."""
        facts = ALGORITHMS[self.algorithm]
        exchange = facts.exchange(self.plan().experiment.algorithm.options)
        policy = self.experiment.get("outbox", {}).get("policy", facts.outbox.policy)
        is_free = isinstance(exchange, WithServer) or (isinstance(exchange, WithPeers) and exchange.is_free)
        return policy != "fifo" and not is_free

    def plan(self) -> RunPlan:
        """For `sim`; raises InvalidInput for a draw that does not fit together."""
        return plan_of(self.text, self.network.text)

    def longest_s(self, plan: RunPlan) -> float:
        """A bound for the emulated time, generous: what lasts longer goes round in circles."""
        stop, chosen = plan.experiment.stop, plan.experiment
        if stop.time_s is not None:
            return stop.time_s + 1.0
        assert stop.rounds is not None
        learners = len(plan.learners)
        facts = ALGORITHMS[self.algorithm]
        messages = sum(each.count for each in facts.messages(chosen.algorithm.options, learners, float(learners)))
        bits = 8 * messages * learners * (_HEADERS_BYTES + 4 * _MOST_PARAMETERS)
        train_s = _SLOWEST_FACTOR * plan.ms_per_step / 1000 * (chosen.training.steps or 1)
        round_s = train_s + bits / self.network.slowest_bps + chosen.missing.after_s + 2 * _LONGEST_OPTION_S
        return 3 * (stop.rounds + 2) * round_s + 3 * self.network.last_event_s + 60.0


def drawn(algorithm: str, seed: int) -> Story:
    """The story of an algorithm and a seed, the same on every machine."""
    for number in range(1, _MOST_DRAWS + 1):
        story = _drawn_once(algorithm, seed, number)
        try:
            plan = story.plan()
            choose_algorithm(algorithm, plan.experiment.algorithm.options)
        except (InvalidInput, CodeProblem):
            continue
        return story
    raise ValueError(f"of {_MOST_DRAWS} draws for {algorithm}, seed {seed}, none is a valid experiment")


def plan_of(experiment: str, topology: str) -> RunPlan:
    """The plan of two files, as `deploy` makes it for `sim`."""
    network = load_bytes(topology.encode(), Form.YAML, TOPOLOGY).require()
    return make_plan(Experiment.model_validate_json(experiment), network, run_id="soak", runtime="sim")


def _drawn_once(algorithm: str, seed: int, number: int) -> Story:
    draw = Random(f"{algorithm} {seed} {number}")  # noqa: S311
    facts = ALGORITHMS[algorithm]
    nodes, steps, ms = draw.randint(4, 8), draw.randint(1, 3), draw.choice((20, 50, 100))
    rounds = draw.randint(3, 12)
    usual_s = rounds * steps * ms / 1000
    options = {each.name: value for each in facts.options if (value := _value(each, nodes, draw)) is not None}
    period_s = next((float(value[:-1]) for name, value in options.items() if name == "period"), 0.0)
    network = drawn_network(draw, nodes, max(usual_s, rounds * period_s, 1.0) * 1.5)
    stop = {"rounds": rounds} if draw.random() < 0.75 else {"time": f"{draw.choice((2, 4, 8))}s"}
    experiment: dict[str, Any] = {
        "topology": TOPOLOGY,
        "algorithm": {"name": algorithm, **options},
        "training": {"lr": draw.choice((0.05, 0.1)), "batch": 4, "steps": steps},
        "compute": {"ms_per_step": ms, "factors": _factors(draw)},
        "stop": stop,
        "evaluation": {"every": draw.choice((2, 5)), "samples": 20, "mode": draw.choice(("after", "after", "inline"))},
        "seed": draw.randint(1, 10**6),
        "missing": {
            "after": f"{draw.choice((0.5, 1, 3))}s",
            "then": draw.choice(("skip", "skip", "skip", "wait", "abort")),
        },
        "rejoin": draw.choice(("fresh", "last")),
        "network": {"idle_restart": draw.random() < 0.5},
        **draw.choice(_DATA),
    }
    if draw.random() < 0.6:  # else what the algorithm runs with
        experiment["outbox"] = {"policy": draw.choice(("fifo", "flush", "latest"))}
        if draw.random() < 0.5:
            experiment["outbox"]["in_flight"] = draw.randint(1, 4)
    exchange = facts.exchange(facts.usual_options)
    if isinstance(exchange, WithPeers) and exchange.partners is Partners.NEIGHBOURS:
        experiment["overlay"] = _overlay(draw, nodes)
    if draw.random() < 0.4:
        experiment["sharing"] = _sharing(draw, facts)
    return Story(algorithm, seed, number, experiment, network)


def _factors(draw: Random) -> list[dict[str, Any]]:
    """Stragglers: some nodes, a node at times, or none."""
    kind = draw.choice(("none", "share", "between", "trace"))
    match kind:
        case "share":
            return [{"share": draw.choice((0.25, 0.5)), "factor": draw.choice((2, _SLOWEST_FACTOR))}]
        case "between":
            return [{"share": 1, "between": [1, 3]}]
        case "trace":
            trace = [["0s", 1], [f"{draw.choice((0.3, 1))}s", _SLOWEST_FACTOR], ["2s", 1]]
            return [{"nodes": f"node.{draw.randrange(4)}", "trace": trace}]
    return []


def _overlay(draw: Random, nodes: int) -> dict[str, Any]:
    kind = draw.choice(("ring", "regular", "full", "star", "small-world"))
    overlay: dict[str, Any] = {"kind": kind}
    if kind == "regular":
        overlay["degree"] = draw.randint(2, nodes - 1)
    if kind == "small-world":
        overlay["degree"] = 2
    if kind in ("ring", "regular", "small-world") and draw.random() < 0.4:
        overlay["dynamic"] = True
        if draw.random() < 0.3:
            overlay["peers"] = "sampler"
    return overlay


def _sharing(draw: Random, facts: AlgorithmFacts) -> dict[str, Any]:
    name = draw.choice(sorted(SHARINGS) if facts.sharings is None else facts.sharings)
    given = {each.name: draw.choice((0.1, 0.3, 0.7)) for each in SHARINGS[name].options if each.type is Type.SHARE}
    return {"name": name, **given}


def _value(option: Option, nodes: int, draw: Random) -> Any:
    """A value of an option, as an experiment writes it; None leaves it out."""
    lasts_long = option.type is Type.DURATION and isinstance(option.default, float) and option.default > 60.0
    if draw.random() < 0.25 and not lasts_long:
        return None
    if isinstance(option.type, tuple):
        return draw.choice(option.type)
    match option.type:
        case Type.POSITIVE:
            return draw.randint(1, nodes - 1)
        case Type.POSITIVE_OR_FREE:
            return draw.choice(("free", 1, 2, 3))
        case Type.AMOUNT:
            return draw.choice((0, 0.5, 1))
        case Type.SHARE:
            return draw.choice((0.05, 0.1, 0.34, 0.5, 1))
        case Type.AT_LEAST_ONE:
            return draw.choice((1, 1.3, 2))
        case Type.TRUTH:
            return draw.random() < 0.5
        case Type.DURATION:
            return f"{draw.choice((0.2, 0.5, _LONGEST_OPTION_S))}s"
    raise ValueError(f"nothing is drawn for the option {option.name} of type {option.type}")
