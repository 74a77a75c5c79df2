"""A run in which nothing happens any more ends with a clear word, and no other does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.control import stall
from testbed.control.stall import CarriedContent, EventsToCome, Inactivity
from testbed.network.timeline import PartitionChange
from testbed.records import Count, End, Event, Phases, Round, Start
from testbed.runtimes.processes import stall_watch
from tests.runtimes.local_runs import needs_network, run
from tests.runtimes.sim_runs import plan_of, records, star

NOTHING = Count()


def round_(t: float) -> Round:
    return Round(t, 0, None, Phases(), NOTHING, NOTHING)


def missing(t: float, whom: str) -> Event:
    return Event(t, "peer-missing", f"round 3: {whom}: wait")


def test_silence_lasts_since_the_last_word_or_other_news() -> None:
    quiet = Inactivity()
    assert quiet.lasts_s(5.0) == 5.0
    quiet.recorded(0, round_(7.0), 7.5)
    assert quiet.lasts_s(10.0) == 2.5
    quiet.news(9.0)
    assert (quiet.lasts_s(10.0), quiet.recorded_at) == (1.0, 7.5)


def test_the_limit_is_the_longest_of_what_may_be_waited_for() -> None:
    quiet = Inactivity()
    assert quiet.limit_s(10.0, 5.9) == stall.LEAST_S
    assert quiet.limit_s(90.0, 0.0) == 92.0
    assert quiet.limit_s(0.0, 7.0) == 70.0
    for t in (1.0, 11.0, 12.0):
        quiet.recorded(0, round_(t), t)
    quiet.recorded(1, round_(500.0), 500.0)  # the first of that node: how long it took is not known
    assert quiet.limit_s(0.0, 0.0) == 100.0
    quiet.recorded(1, End(501.0, "finished", 1, 1, NOTHING, NOTHING), 501.0)
    quiet.recorded(1, round_(900.0), 900.0)
    assert quiet.limit_s(0.0, 0.0) == 100.0


def test_who_waits_for_whom_until_it_has_said_something_else() -> None:
    quiet = Inactivity()
    assert quiet.awaited.get(0) is None
    quiet.recorded(0, missing(1.0, "a.1"), 1.0)
    quiet.recorded(1, missing(1.0, "a.1, a.2, a.3, a.4, a.5"), 1.0)
    assert quiet.awaited.get(0) == "a.1 in round 3"
    assert quiet.awaited.get(1) == "a.1, a.2, a.3 and 2 more in round 3"
    quiet.recorded(0, round_(2.0), 2.0)
    assert quiet.awaited.get(0) is None
    quiet.recorded(0, missing(50.0, "a.1"), 50.0)  # to miss a peer is no end of the silence
    assert (quiet.lasts_s(60.0), quiet.recorded_at) == (58.0, 2.0)
    quiet.recorded(0, Event(55.0, "peer-missing", "round 3: a.1: skip"), 55.0)  # unless the node goes on without
    assert (quiet.lasts_s(60.0), quiet.recorded_at) == (5.0, 2.0)


def changes(*times: float) -> Iterator[PartitionChange]:
    return (PartitionChange(at_s, 1, (), begins=True) for at_s in times)


def test_what_is_still_to_come_may_help() -> None:
    coming = EventsToCome(changes(5.0, 8.0))
    assert coming.may_help(1.0, 0.0)
    assert coming.may_help(6.0, 0.0)
    assert coming.may_help(9.0, 0.0)  # it has just come
    assert not coming.may_help(10.0, 0.0)
    assert not EventsToCome(changes()).may_help(0.0, 0.0)


def test_what_comes_for_ever_does_not_help_for_ever() -> None:
    coming = EventsToCome(changes(*range(1, 1000)))
    assert coming.may_help(9.5, 0.0)
    assert not coming.may_help(10.5, 0.0)
    assert coming.may_help(11.5, 11.2)  # a node has reported meanwhile


KEEPALIVE = (2, 104)
"""Packets and bytes of a connection that is kept alive: an empty segment with timestamps, and its acknowledgement."""


@pytest.mark.parametrize("connections", [1, 50, 80, 65280])
def test_connections_that_are_kept_alive_carry_nothing(connections: int) -> None:
    carried = CarriedContent(1.0)
    assert carried.is_more(1000, 1_000_000)
    packets, size = 1000, 1_000_000
    for _ in range(10):
        packets, size = packets + connections * KEEPALIVE[0], size + connections * KEEPALIVE[1]
        assert not carried.is_more(packets, size)


@pytest.mark.parametrize(("time_scale", "segments", "is_more"), [(1.0, 3, True), (1.0, 2, False), (4.0, 1, True)])
def test_a_slow_message_is_carried_among_connections_that_are_kept_alive(
    time_scale: float, segments: int, *, is_more: bool
) -> None:
    """A model comes in full segments; slowed down, in fewer of them."""
    carried = CarriedContent(time_scale)
    assert carried.is_more(segments, segments * 1500) == is_more
    signs = 2 * 65280
    assert carried.is_more(2 * segments + signs, 2 * segments * 1500 + signs * 52) == is_more


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall, "LEAST_S", 2.0)
    monkeypatch.setattr(stall_watch, "_EVERY_S", 0.25)


CRASH = "  - {at: 0.5s, node: node.3, do: crash}\n"
WAITING = {"overlay": {"kind": "full"}, "missing": {"after": "500ms", "then": "wait"}, "stop": {"rounds": 20}}


@needs_network
@pytest.mark.usefixtures("_impatient")
def test_who_waits_for_a_dead_peer_ends_the_run(tmp_path: Path) -> None:
    directory, outcome = run(plan_of(star(4, CRASH), **WAITING), tmp_path)
    assert outcome.reason == "failed"
    assert [each.node for each in outcome.failures] == ["node.0", "node.1", "node.2"]
    for each in outcome.failures:
        assert each.failure.message.startswith("waits for node.")
        assert "node.3 in round " in each.failure.message  # and perhaps for others, who wait for it
        assert ", in vain: nothing has happened for " in each.failure.message
        assert "; `missing.then: skip` goes on without" in each.failure.message
    for name in ("node.0", "node.1", "node.2"):
        last = records(directory, name)[-1]
        assert isinstance(last, End)
        assert last.reason == "stopped"


@needs_network
@pytest.mark.usefixtures("_impatient")
def test_who_waits_for_a_peer_that_is_to_come_back_goes_on(tmp_path: Path) -> None:
    """After twice the silence that would end the run."""
    back = "  - {at: 5s, node: node.3, do: join}\n"
    directory, outcome = run(plan_of(star(4, CRASH + back), **WAITING), tmp_path)
    assert (outcome.reason, outcome.failures) == ("finished", ())
    (again,) = [each for each in records(directory, "node.3") if isinstance(each, Start)][1:]
    assert again.t >= 5.0
