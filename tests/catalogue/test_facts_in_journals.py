"""The messages that the table of algorithms promises, against those that runs write into their journals.

A new entry is tested without a new test: its runs are made from its options.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from testbed.catalogue.algorithm_facts import AlgorithmFacts
from testbed.catalogue.algorithms import ALGORITHMS
from testbed.catalogue.exchanges import Sender, Sent, WithPeers, WithServer
from testbed.catalogue.options import Option, Type, Value
from testbed.errors import InvalidInput
from testbed.plan.model import RunPlan
from testbed.plan.traffic import exchange_in, messages_in
from testbed.records import End, Start
from tests.runtimes.sim_runs import plan_of, records, run, star

NODES = 8
FIRST, LAST = 2, 10
"""Two runs of one experiment: what the longer one sends more, it sends in its further rounds. Messages that begin or
end a run do not count."""
DEVIATIONS = 5.0
"""Bounds of what is drawn, as if every message were drawn by itself."""
ROUNDING = 1e-6
STEPS, STEP_MS = 2, 500
OTHER = {Type.POSITIVE: 2, Type.POSITIVE_OR_FREE: 2, Type.SHARE: 0.5, Type.AT_LEAST_ONE: 1.5}


@dataclass(frozen=True)
class Totals:
    """What all nodes have sent in a run."""

    messages: int
    payload: int
    parameters: int


def other(option: Option) -> tuple[Value, ...]:
    """What an option is tried with: all words, or the default and one more value."""
    if isinstance(option.type, tuple):
        return option.type
    if option.type is Type.TRUTH:
        return (True, False)
    value = OTHER.get(option.type, option.default)
    return (option.default,) if value == option.default else (option.default, value)


def choices(facts: AlgorithmFacts) -> Iterator[dict[str, Value]]:
    """The defaults, and every combination of words with all other options changed together."""
    words = [option for option in facts.options if isinstance(option.type, tuple)]
    others = [option for option in facts.options if not isinstance(option.type, tuple)]
    yield {}
    for chosen in product(*(other(option) for option in words)):
        named = {option.name: word for option, word in zip(words, chosen, strict=True)}
        yield {**named, **{option.name: other(option)[-1] for option in others if other(option)[-1] is not None}}


CASES = [
    pytest.param(facts, chosen, id=f"{facts.name}-{'-'.join(map(str, chosen.values())) or 'defaults'}")
    for facts in ALGORITHMS.values()
    for chosen in choices(facts)
]


def planned(
    facts: AlgorithmFacts, options: dict[str, Value], rounds: int, kind: str = "regular", **more: Any
) -> RunPlan:
    exchange = facts.exchange({**facts.usual_options, **options})
    asks_overlay = isinstance(exchange, WithPeers) and not exchange.draws
    server = isinstance(exchange, WithServer)
    return plan_of(
        star(NODES + server, rate="1Gbps"),
        algorithm={"name": facts.name, **options},
        model={"name": "logistic"},
        # What waits when all have done their rounds may never leave: such a run ends in the middle of a round.
        stop={"rounds": rounds}
        if facts.outbox.in_flight is None
        else {"time": f"{(rounds + 0.5) * STEPS * STEP_MS}ms"},
        evaluation={"mode": "none"},
        compute={"ms_per_step": STEP_MS},
        training={"lr": 0.1, "steps": STEPS},
        overlay={"kind": kind, "degree": 4} if asks_overlay else {},
        **more,
    )


def sent_in(plan: RunPlan, folder: Path) -> Totals:
    folder.mkdir()
    directory, outcome = run(plan, folder)
    assert outcome.reason in ("finished", "time")
    all_of_them = [each for node in plan.nodes for each in records(directory, node.name)]
    ends = [each.sent for each in all_of_them if isinstance(each, End)]
    (parameters,) = {each.parameters for each in all_of_them if isinstance(each, Start)}
    return Totals(sum(each.messages for each in ends), sum(each.payload for each in ends), parameters)


def further(facts: AlgorithmFacts, options: dict[str, Value], folder: Path, **more: Any) -> tuple[Totals, RunPlan]:
    """What the further rounds of the longer run send."""
    short, long = (planned(facts, options, rounds, **more) for rounds in (FIRST, LAST))
    before, after = sent_in(short, folder / "short"), sent_in(long, folder / "long")
    return Totals(after.messages - before.messages, after.payload - before.payload, after.parameters), long


def in_all(sort: Sent) -> float:
    """How many messages of a sort all nodes send in the further rounds."""
    return sort.count * (LAST - FIRST) * (NODES if sort.by is Sender.LEARNER else 1)


@pytest.mark.parametrize(("facts", "options"), CASES)
def test_runs_send_the_messages_that_the_table_promises(
    facts: AlgorithmFacts, options: dict[str, Value], tmp_path: Path
) -> None:
    try:
        found, plan = further(facts, options, tmp_path)
    except InvalidInput as problem:
        pytest.skip(f"these do not go together: {problem}")
    check(found, plan)


ASKS_OVERLAY = [
    facts
    for facts in ALGORITHMS.values()
    if isinstance(exchange := facts.exchange(facts.usual_options), WithPeers) and not exchange.draws
]


@pytest.mark.parametrize("facts", ASKS_OVERLAY, ids=lambda facts: facts.name)
def test_so_they_do_where_nodes_have_different_numbers_of_neighbours(facts: AlgorithmFacts, tmp_path: Path) -> None:
    found, plan = further(facts, {}, tmp_path, kind="small-world")
    assert plan.overlay.neighbours is not None
    assert len({len(each) for each in plan.overlay.neighbours}) > 1
    check(found, plan)


def check(found: Totals, plan: RunPlan) -> None:
    sorts = messages_in(plan)
    messages, models = (sum(map(weight, sorts)) for weight in (in_all, lambda sort: in_all(sort) * sort.part))
    drawn = [sort for sort in sorts if sort.is_drawn]
    # A node that waits for nothing drops its last messages to those that have finished before it.
    ends = 0 if exchange_in(plan).waits else NODES
    free = ends + DEVIATIONS * sum(in_all(sort) for sort in drawn) ** 0.5
    free_models = (
        ends * max(sort.part for sort in sorts) + DEVIATIONS * sum(in_all(sort) * sort.part**2 for sort in drawn) ** 0.5
    )
    assert found.messages == pytest.approx(messages, rel=ROUNDING, abs=free)
    assert found.payload / (4 * found.parameters) == pytest.approx(models, rel=ROUNDING, abs=free_models)


ALL_SHARINGS = [facts for facts in ALGORITHMS.values() if facts.sharings is None]


@pytest.mark.parametrize("facts", ALL_SHARINGS, ids=lambda facts: facts.name)
def test_a_sharing_shortens_what_the_table_says_it_does(facts: AlgorithmFacts, tmp_path: Path) -> None:
    fraction = 0.2
    found, plan = further(facts, {}, tmp_path, sharing={"name": "random", "fraction": fraction})
    models = sum(in_all(sort) * sort.part * (fraction if sort.shared else 1.0) for sort in messages_in(plan))
    assert found.payload / (4 * found.parameters) == pytest.approx(models, rel=0.1)


@pytest.mark.parametrize("facts", ALGORITHMS.values(), ids=lambda facts: facts.name)
def test_every_algorithm_is_tried_with_two_sets_of_options(facts: AlgorithmFacts) -> None:
    def goes_together(options: dict[str, Value]) -> bool:
        try:
            planned(facts, options, FIRST)
        except InvalidInput:
            return False
        return True

    kept = [options for options in choices(facts) if goes_together(options)]
    assert {} in kept
    assert len(kept) >= (2 if facts.options else 1)
