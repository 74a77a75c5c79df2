"""Rehearsed rounds that wait for nothing: who is sent which fragment, and what an outbox keeps."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from testbed.catalogue.algorithm_facts import OutboxFacts, OutboxPolicy
from testbed.catalogue.algorithms import ALGORITHMS
from testbed.catalogue.exchanges import Partners, Sender, Sent, WithPeers
from testbed.catalogue.options import Option, Type
from testbed.plan.estimate import estimate
from testbed.plan.model import RunPlan
from testbed.plan.rehearse_free import Free, RehearsedOutbox, Waiting
from testbed.plan.rehearse_rounds import Post
from testbed.plan.round_messages import parts_of, traffic_of
from testbed.plan.traffic import CONTROL_BYTES, HEADER_BYTES
from tests.plan.test_make import nodes
from tests.plan.test_make import plan_of as plan_of_experiment

PARAMETERS = 100_000
FRAGMENTS, FANOUT = 5, 3


def facts(monkeypatch: pytest.MonkeyPatch, *sorts: Sent, partners: Partners, fanout: int | None) -> None:
    """Makes D-PSGD an algorithm that waits for nothing, and sends these messages."""
    exchange = WithPeers(partners, fanout, waits=False, pause_s=0.0, tells_others=False)
    changed = replace(
        ALGORITHMS["dpsgd"],
        options=(Option("fanout", Type.POSITIVE, None, "To how many."),),
        exchange=lambda _options: exchange,
        messages=lambda _options, _learners, _degree: sorts,
        outbox=OutboxFacts("flush", in_flight=1),
    )
    for module in ("catalogue.algorithms", "plan.make", "plan.outbox", "plan.algorithm_needs", "plan.traffic"):
        monkeypatch.setattr(f"testbed.{module}.ALGORITHMS", {"dpsgd": changed})


def plan_of(count: int, **sections: Any) -> RunPlan:
    return plan_of_experiment(nodes(count), **sections).model_copy(update={"parameters": PARAMETERS})


def sent(count: float, part: float, *, answers: bool = False) -> Sent:
    return Sent("something", Sender.LEARNER, count, is_drawn=False, answers=answers, part=part, shared=False)


def test_fragments_go_to_different_nodes_each(monkeypatch: pytest.MonkeyPatch) -> None:
    facts(monkeypatch, sent(FRAGMENTS * FANOUT, 1 / FRAGMENTS), partners=Partners.ANY, fanout=FANOUT)
    plan = plan_of(8)
    parts = parts_of(plan)
    assert isinstance(parts, Free)
    assert parts.outbox == OutboxFacts("flush", in_flight=1)
    for round_ in (0, 1):
        for rank, posts in parts.messages(round_).items():
            assert Counter(post.part for post in posts) == dict.fromkeys(range(FRAGMENTS), FANOUT)
            assert len({(post.part, post.to) for post in posts}) == FRAGMENTS * FANOUT
            assert rank not in {post.to for post in posts}
            assert {post.size for post in posts} == {4 * PARAMETERS // FRAGMENTS + HEADER_BYTES}
    assert parts.messages(0) != parts.messages(1)
    cost = estimate(plan)
    assert cost.round_bytes == 8 * FANOUT * (4 * PARAMETERS + FRAGMENTS * HEADER_BYTES)
    assert not cost.peak_is_bound, "it was rehearsed"
    assert cost.round_s == pytest.approx(cost.compute_s)


def test_each_neighbour_gets_its_own_where_numbers_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(8, overlay="star")
    facts(monkeypatch, sent(14 / 8, 1.0), partners=Partners.NEIGHBOURS, fanout=None)
    (phase,) = traffic_of(plan).phases
    assert sorted(phase.pairs) == sorted({(0, other) for other in range(1, 8)} | {(other, 0) for other in range(1, 8)})


def test_requests_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    requests, answers = sent(1, 0.0), sent(1, 1.0, answers=True)
    facts(monkeypatch, requests, answers, partners=Partners.NEIGHBOURS, fanout=1)
    plan = plan_of(6, overlay="ring")
    parts = parts_of(plan)
    assert isinstance(parts, Free)
    assert {(post.size, post.answer) for posts in parts.messages(0).values() for post in posts} == {
        (CONTROL_BYTES, 4 * PARAMETERS + HEADER_BYTES)
    }
    traffic = traffic_of(plan)
    asked = sorted((post.to, rank) for rank, posts in parts.messages(0).items() for post in posts)
    assert [sorted(phase.pairs) for phase in traffic.phases] == [asked]
    assert traffic.control == 6 * CONTROL_BYTES
    cost = estimate(plan)
    assert cost.round_bytes == 6 * (4 * PARAMETERS + HEADER_BYTES + CONTROL_BYTES)
    assert cost.transfer_s is not None, "answers were rehearsed"


def test_half_a_message_is_one_every_other_time(monkeypatch: pytest.MonkeyPatch) -> None:
    facts(monkeypatch, sent(0.5, 1.0), partners=Partners.NEIGHBOURS, fanout=1)
    parts = parts_of(plan_of(6, overlay="ring"))
    assert isinstance(parts, Free)
    for round_ in range(4):
        counts = [len(posts) for posts in parts.messages(round_).values()]
        assert counts == ([0, 1] * 3 if round_ % 2 == 0 else [1, 0] * 3)


def outbox(policy: OutboxPolicy, in_flight: int | None) -> tuple[RehearsedOutbox, list[tuple[int, int]]]:
    """An outbox, and the recipients and fragments of messages that have started."""
    started: list[tuple[int, int]] = []
    parts = Free(lambda _round: {}, OutboxFacts(policy, in_flight), CONTROL_BYTES)
    return RehearsedOutbox(parts, lambda each: started.append((each.post.to, each.post.part))), started


def message(to: int, part: int = 0, round_: int = 0, size: int = 1000) -> Waiting:
    return Waiting(Post(to, size, 0, part), round_)


def test_one_to_each_and_no_more_than_may_be_under_way() -> None:
    box, started = outbox("fifo", 2)
    for to, part in ((1, 0), (1, 1), (2, 0), (3, 0)):
        box.post(message(to, part))
    assert started == [(1, 0), (2, 0)], "the second one to 1 waits for the first one"
    box.left(message(2).post)
    assert started[2:] == [(3, 0)]
    box.left(message(1).post)
    assert started[3:] == [(1, 1)]
    box, started = outbox("fifo", None)
    for to in (1, 2, 3, 4, 1):
        box.post(message(to))
    assert [to for to, _ in started] == [1, 2, 3, 4]


MODELS_LEFT: dict[OutboxPolicy, list[tuple[int, int]]] = {
    "fifo": [(1, 0), (1, 1), (2, 0), (2, 0), (2, 1)],
    "flush": [(1, 0), (2, 0), (2, 1)],
    "latest": [(1, 0), (1, 1), (2, 0), (2, 1)],
}


@pytest.mark.parametrize("policy", MODELS_LEFT)
def test_what_is_dropped_for_newer_messages(policy: OutboxPolicy) -> None:
    box, started = outbox(policy, 1)
    for to, part in ((1, 0), (1, 1), (2, 0)):
        box.post(message(to, part))
    box.post(message(3, size=CONTROL_BYTES))
    for part in (0, 1):
        box.post(message(2, part, round_=1))
    for number in range(6):
        if number < len(started):
            box.left(message(started[number][0]).post)
    assert [place for place in started if place[0] != 3] == MODELS_LEFT[policy]
    assert (3, 0) in started, "control messages are not dropped"
