"""Nodes that come and go in virtual time, in all the ways that are easily got wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed.errors import InvalidInput
from testbed.records import End, Event, Round, Start
from tests.runtimes.sim_runs import plan_of, records, run, star, texts
from tests.runtimes.test_sim import of_type

SKIP = {"after": "1s", "then": "skip"}


@pytest.mark.parametrize("name", ["fedavg", "parameter-server"])
def test_a_server_without_clients_does_not_rush_through_its_rounds(name: str, tmp_path: Path) -> None:
    events = "".join(f"  - {{at: 0.3s, node: node.{rank}, do: crash, rejoin: 4s}}\n" for rank in (1, 2))
    plan = plan_of(star(3, events), algorithm={"name": name}, missing=SKIP, stop={"rounds": 40})
    directory, outcome = run(plan, tmp_path)
    assert not outcome.failures
    rounds = of_type(records(directory, "node.0"), Round)
    assert sum(each.aggregated == 0 for each in rounds) < 8
    assert sum(each.aggregated == 2 for each in rounds) > 20


def test_a_dead_sampler_does_not_make_the_others_rush(tmp_path: Path) -> None:
    overlay = {"kind": "regular", "degree": 2, "dynamic": True, "peers": "sampler"}
    plan = plan_of(
        star(4, "  - {at: 0.3s, node: node.0, do: crash}\n"), overlay=overlay, missing=SKIP, stop={"rounds": 12}
    )
    directory, outcome = run(plan, tmp_path)
    assert not outcome.failures
    alone = [each for each in of_type(records(directory, "node.1"), Round) if not each.aggregated]
    assert all(each.phases.wait >= 1 for each in alone)


def test_who_comes_back_gets_the_newest_and_not_all_that_it_missed(tmp_path: Path) -> None:
    """At 2 Mbit/s a backlog of models would take seconds."""
    events = "  - {at: 0.3s, node: node.1, do: crash, rejoin: 10s}\n"
    settings: dict[str, Any] = {"overlay": {"kind": "full"}, "missing": SKIP, "stop": {"rounds": 200}}
    plan = plan_of(star(3, events, rate="2Mbps"), **settings)
    directory, _ = run(plan, tmp_path)
    rounds = of_type(records(directory, "node.1"), Round)
    back = [each for each in rounds if each.t > 10.3]
    assert back[2].aggregated == 2


def test_leave_join_leave_is_away_and_crash_after_join_too(tmp_path: Path) -> None:
    for last in ("leave", "crash"):
        times = (("0.05s", "leave"), ("0.1s", "join"), ("0.15s", last))
        events = "".join(f"  - {{at: {at}, node: node.3, do: {do}}}\n" for at, do in times)
        plan = plan_of(star(4, events, rate="200kbps"), overlay={"kind": "full"}, missing=SKIP)
        directory, _ = run(plan, tmp_path / last)
        found = records(directory, "node.3")
        assert len(of_type(found, Start)) == 1, last


def test_paused_left_and_back_again_it_hears_the_others(tmp_path: Path) -> None:
    times = (("0.05s", "pause"), ("0.1s", "leave"), ("2s", "join"))
    events = "".join(f"  - {{at: {at}, node: node.3, do: {do}}}\n" for at, do in times)
    plan = plan_of(star(4, events), overlay={"kind": "full"}, missing=SKIP, stop={"rounds": 60})
    directory, _ = run(plan, tmp_path)
    found = records(directory, "node.3")
    second = found[max(place for place, each in enumerate(found) if isinstance(each, Start)) :]
    assert sum(each.aggregated for each in of_type(second, Round)) > 3


def test_who_has_finished_is_not_born_again(tmp_path: Path) -> None:
    events = "  - {at: 20s, node: node.1, do: leave}\n  - {at: 21s, node: node.1, do: join}\n"
    settings: dict[str, Any] = {"overlay": {"kind": "ring"}, "stop": {"rounds": 3}}
    plan = plan_of(star(3, events), compute={"factors": [{"nodes": "node.0", "factor": 300}]}, **settings)
    directory, outcome = run(plan, tmp_path)
    assert outcome.t > 21
    assert len(of_type(records(directory, "node.1"), Round)) == 3


def test_workers_do_not_matter_when_a_node_leaves_in_the_middle_of_training(tmp_path: Path) -> None:
    events = "  - {at: 5s, node: node.1, do: leave}\n  - {at: 5.001s, node: node.1, do: join}\n"
    training = {"lr": 0.05, "batch": 8, "steps": 300, "momentum": 0.9}
    plan = plan_of(star(3, events), training=training, missing=SKIP, stop={"rounds": 3})
    alone, _ = run(plan, tmp_path / "a", workers=0)
    crew, _ = run(plan, tmp_path / "b", workers=2)
    assert texts(alone) == texts(crew)


LAST_WORDS = """
from testbed.node.algorithm import Algorithm


class LastWords(Algorithm):
    async def run(self, node):
        try:
            async for round_ in node.rounds():
                await node.train()
                await node.send(node.others, self.sharing.encode(node.model, round_))
                await node.gather(node.others, round_)
        finally:
            node.note("bye")
            await node.send(node.others, self.sharing.encode(node.model, 10**6))
"""


def test_a_crashed_nodes_last_words_are_not_heard(tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text(LAST_WORDS)
    plan = plan_of(
        star(3, "  - {at: 0.1s, node: node.2, do: crash}\n"),
        algorithm={"name": f"{tmp_path / 'words.py'}:LastWords"},
        missing=SKIP,
    )
    directory, outcome = run(plan, tmp_path)
    assert not outcome.failures
    assert not any(each.what == "bye" for each in of_type(records(directory, "node.2"), Event))
    assert of_type(records(directory, "node.0"), End)[0].reason == "finished"


def test_an_accuracy_that_nobody_measures_is_refused() -> None:
    with pytest.raises(InvalidInput) as caught:
        plan_of(star(3), stop={"accuracy": 0.9}, evaluation={"mode": "none"})
    assert [each.code for each in caught.value.findings] == ["no-evaluation"]


def test_more_background_than_rate_leaves_a_trickle(tmp_path: Path) -> None:
    topology = star(2, "  - {at: 0.05s, link: [node.0, hub], rate: 100kbps}\n").replace(
        "rate: 20Mbps", "rate: 20Mbps, background: 5Mbps"
    )
    _, outcome = run(plan_of(topology, stop={"time": "3s"}), tmp_path)
    assert outcome.reason == "time"
