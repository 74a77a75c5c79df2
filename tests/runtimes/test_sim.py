"""Runs in virtual time: what is the same again, what topology events do, and how runs end."""

from __future__ import annotations

import shutil
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from testbed.journal import CannotWrite
from testbed.records import AnyRecord, Average, End, Evaluation, Event, Over, Round, Start
from tests.runtimes.sim_runs import plan_of, records, run, star, texts


def of_type(found: list[AnyRecord], kind: type[Any]) -> list[Any]:
    return [record for record in found if isinstance(record, kind)]


SETTINGS: list[dict[str, Any]] = [
    {},
    {"overlay": {"kind": "regular", "degree": 3, "dynamic": True, "peers": "sampler"}},
    {"sharing": {"name": "topk", "fraction": 0.2}},
    {"algorithm": {"name": "epidemic", "mode": "local", "fanout": 2, "round_end": "timeout"}},
    {"algorithm": {"name": "fedavg", "participation": 0.5}},
    {"algorithm": {"name": "parameter-server", "mode": "async"}, "training": {"lr": 0.1, "batch": 8, "steps": 1}},
]


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda each: str(sorted(each) or "plain"))
def test_two_runs_of_one_plan_write_the_same_bytes(settings: dict[str, Any], tmp_path: Path) -> None:
    """Whatever the order of nodes within an instant, and however many workers there are."""
    plan = plan_of(star(6, "  - {at: 0.2s, link: [node.0, hub], latency: 20ms}\n"), **settings)
    first, outcome = run(plan, tmp_path / "a")
    assert outcome.reason == "finished"
    assert not outcome.failures
    second, _ = run(plan, tmp_path / "b", workers=1, shuffle=3)
    third, _ = run(plan, tmp_path / "c", workers=2, shuffle=8)
    assert texts(first) == texts(second)
    assert texts(first) == texts(third)


def test_another_seed_gives_another_run(tmp_path: Path) -> None:
    first, _ = run(plan_of(star(4)), tmp_path / "a")
    second, _ = run(plan_of(star(4), seed=2), tmp_path / "b")
    assert texts(first) != texts(second)


def test_a_journal_tells_the_whole_story(tmp_path: Path) -> None:
    plan = plan_of(star(4), overlay={"kind": "full"})
    directory, outcome = run(plan, tmp_path)
    found = records(directory, "node.2")
    assert isinstance(found[0], Start)
    assert (found[0].node, found[0].rank, found[0].learner, found[0].roles) == ("node.2", 2, 2, ("learner",))
    rounds = of_type(found, Round)
    assert [each.round for each in rounds] == [0, 1, 2, 3]
    assert all(each.sent.messages == each.received.messages == 3 for each in rounds)
    parameters = found[0].parameters
    assert all(each.sent.payload == 3 * 4 * parameters for each in rounds)
    assert all(each.aggregated == 3 and each.steps == 2 and each.loss > 0 for each in rounds)
    for each, before in zip(rounds, [0.0, *(each.t for each in rounds)], strict=False):
        assert each.phases.train == pytest.approx(0.04)
        assert each.phases.train + each.phases.wait == pytest.approx(each.t - before)
    assert [each.round for each in of_type(found, Evaluation)] == [1, 3]
    end = found[-1]
    assert isinstance(end, End)
    assert (end.reason, end.rounds, end.steps) == ("finished", 4, 8)
    assert end.sent.payload == sum(each.sent.payload for each in rounds)
    log = records(directory, None)
    assert [each.round for each in of_type(log, Average)] == [1, 3]
    assert all(each.consensus_distance > 0 and each.nodes == 4 for each in of_type(log, Average))
    assert log[-1] == Over(outcome.t, "finished", 4, 0)


def test_latency_and_rate_decide_how_long_a_round_takes(tmp_path: Path) -> None:
    """Two nodes exchange 2410 parameters (9.6 kB, within the first window) over 2 × 5 ms."""
    plan = plan_of(star(2), stop={"rounds": 2}, network={"idle_restart": False})
    directory, _ = run(plan, tmp_path)
    first, second = of_type(records(directory, "node.0"), Round)
    one_way_s, size_s = 0.010, 9.7e3 * 8 / 20e6
    for each in (first, second):  # connections are open from the start
        assert each.phases.wait == pytest.approx(one_way_s + size_s, rel=0.25)


def test_a_slow_device_takes_its_factor_longer(tmp_path: Path) -> None:
    factors = [{"nodes": "node.1", "factor": 3}, {"nodes": "node.2", "trace": [["0s", 1], ["50ms", 5]]}]
    plan = plan_of(star(3), compute={"ms_per_step": 100, "factors": factors}, stop={"rounds": 1})
    directory, _ = run(plan, tmp_path)
    train = [of_type(records(directory, f"node.{rank}"), Round)[0].phases.train for rank in range(3)]
    assert train == pytest.approx([0.2, 0.6, 0.05 + 5 * 0.15])


def test_the_run_ends_when_its_time_is_over(tmp_path: Path) -> None:
    directory, outcome = run(plan_of(star(3), stop={"time": "0.5s"}), tmp_path)
    assert (outcome.reason, outcome.t) == ("time", 0.5)
    for rank in range(3):
        found = records(directory, f"node.{rank}")
        assert isinstance(found[-1], End)
        assert (found[-1].reason, found[-1].t) == ("stopped", 0.5)
        assert of_type(found, Evaluation)


def test_the_run_ends_when_it_is_good_enough(tmp_path: Path) -> None:
    settings = {"stop": {"rounds": 200, "accuracy": 0.5}, "training": {"lr": 0.2, "batch": 8, "steps": 20}}
    directory, outcome = run(plan_of(star(3), **settings), tmp_path)
    assert outcome.reason == "accuracy"
    last = [of_type(records(directory, f"node.{rank}"), Evaluation)[-1].accuracy for rank in range(3)]
    assert sum(last) / 3 >= 0.5
    assert all(len(of_type(records(directory, f"node.{rank}"), Round)) < 100 for rank in range(3))


@pytest.mark.parametrize("then", ["skip", "abort"])
def test_a_crashed_peer_costs_the_others_a_timeout(then: str, tmp_path: Path) -> None:
    topology = star(4, "  - {at: 0.05s, node: node.3, do: crash}\n")
    plan = plan_of(topology, overlay={"kind": "full"}, missing={"after": "1s", "then": then})
    directory, outcome = run(plan, tmp_path)
    gone = records(directory, "node.3")
    assert not of_type(gone, End)
    others = [records(directory, f"node.{rank}") for rank in range(3)]
    assert all("node.3" in of_type(found, Event)[0].detail for found in others)
    if then == "skip":
        assert not outcome.failures
        assert all(len(of_type(found, Round)) == 4 for found in others)
        assert any(each.expired == 1 and each.phases.wait >= 1 for each in of_type(others[0], Round))
    else:
        assert outcome.reason == "failed"
        assert all(each.failure.message.startswith("node.3 sent nothing") for each in outcome.failures)


def test_waiting_for_ever_is_noticed(tmp_path: Path) -> None:
    topology = star(3, "  - {at: 0.1s, node: node.2, do: crash}\n")
    _, outcome = run(plan_of(topology, missing={"after": "1s", "then": "wait"}), tmp_path)
    assert outcome.reason == "failed"
    assert "nothing else can happen" in outcome.failures[0].failure.message


@pytest.mark.parametrize("rejoin", ["fresh", "last"])
def test_a_node_that_comes_back_goes_on_with_the_others(rejoin: str, tmp_path: Path) -> None:
    events = "  - {at: 0.1s, node: node.3, do: crash}\n  - {at: 2s, node: node.3, do: join}\n"
    plan = plan_of(star(4, events), overlay={"kind": "full"}, rejoin=rejoin, stop={"rounds": 6})
    directory, outcome = run(plan, tmp_path)
    assert not outcome.failures
    found = records(directory, "node.3")
    starts = of_type(found, Start)
    assert [each.rejoin for each in starts] == [None, rejoin]
    assert isinstance(found[-1], End)
    assert found[-1].reason == "finished"
    assert starts[1].t == 2
    assert all(len(of_type(records(directory, f"node.{rank}"), Round)) == 6 for rank in range(3))


LEAVER = "  - {at: 0.05s, node: node.3, do: leave}\n"


def test_a_node_that_leaves_finishes_its_sends(tmp_path: Path) -> None:
    """One message at a time, so that two of three are still waiting when it leaves."""
    settings = {"overlay": {"kind": "full"}, "missing": {"after": "2s", "then": "skip"}, "outbox": {"in_flight": 1}}
    plan = plan_of(star(4, LEAVER).replace("20Mbps", "200kbps"), **settings)
    directory, outcome = run(plan, tmp_path)
    end = records(directory, "node.3")[-1]
    assert isinstance(end, End)
    assert (end.reason, end.sent.messages) == ("left", 3 + 3), "models, and goodbyes"
    assert 1 < end.t < 5
    assert outcome.reason == "finished"


def test_a_node_that_leaves_does_not_hold_up_the_end(tmp_path: Path) -> None:
    topology = star(4, LEAVER).replace("20Mbps", "20kbps")
    _, outcome = run(plan_of(topology, overlay={"kind": "full"}, stop={"time": "0.5s"}), tmp_path)
    assert (outcome.reason, outcome.t) == ("time", 0.5)


def test_a_node_that_should_be_back_before_it_is_gone_comes_back_then(tmp_path: Path) -> None:
    events = LEAVER + "  - {at: 0.1s, node: node.3, do: join}\n"
    settings = {"overlay": {"kind": "full"}, "missing": {"after": "2s", "then": "skip"}}
    directory, _ = run(plan_of(star(4, events).replace("20Mbps", "200kbps"), **settings), tmp_path)
    found = records(directory, "node.3")
    left = next(each for each in found if isinstance(each, End))
    again = of_type(found, Start)[1]
    assert (left.reason, again.rejoin) == ("left", "fresh")
    assert again.t == left.t > 0.5


SERVED = [
    {"algorithm": {"name": "fedavg"}, "training": {"lr": 0.2, "batch": 8, "steps": 10}},
    {"algorithm": {"name": "parameter-server"}, "training": {"lr": 0.2, "batch": 64, "steps": 1}},
]


@pytest.mark.parametrize("settings", SERVED, ids=["fedavg", "parameter-server"])
def test_with_a_server_its_model_decides_when_it_is_good_enough(settings: dict[str, Any], tmp_path: Path) -> None:
    settings = {**settings, "stop": {"rounds": 400, "accuracy": 0.4}, "evaluation": {"every": 1, "samples": 200}}
    directory, outcome = run(plan_of(star(4), **settings), tmp_path)
    assert outcome.reason == "accuracy"
    scores = [each.accuracy for each in of_type(records(directory, "node.0"), Evaluation)]
    assert scores[-1] >= 0.4 > max(scores[:-1], default=0)
    assert len(scores) < 400
    assert not any(of_type(records(directory, f"node.{rank}"), Evaluation) for rank in range(1, 4))
    assert not of_type(records(directory, None), Average), "there are no models of learners to average"


def test_the_end_by_accuracy_does_not_depend_on_the_order_within_an_instant(tmp_path: Path) -> None:
    settings = {
        "algorithm": {"name": "epidemic", "mode": "local", "fanout": 2, "round_end": "timeout", "timeout": "100ms"},
        "stop": {"rounds": 60, "accuracy": 0.6},
        "evaluation": {"every": 1, "samples": 20},
        "training": {"lr": 0.2, "batch": 8, "steps": 5},
    }
    plan = plan_of(star(6), **settings)
    runs = [run(plan, tmp_path / str(shuffle), shuffle=shuffle) for shuffle in (None, 1, 2, 3)]
    assert runs[0][1].reason == "accuracy"
    assert all(texts(directory) == texts(runs[0][0]) for directory, _ in runs[1:])


def test_no_more_arrives_than_was_sent_when_a_node_crashes(tmp_path: Path) -> None:
    """One second one way: the crash comes after a delivery and before its acknowledgement."""
    for at in ("3.2s", "3.5s", "4s", "4.5s"):
        events = f"  - {{at: {at}, node: node.1, do: crash, rejoin: 1s}}\n"
        settings = {"stop": {"rounds": 8}, "missing": {"after": "5s", "then": "skip"}}
        directory, outcome = run(plan_of(star(2, events).replace("5ms", "500ms"), **settings), tmp_path / at)
        assert not outcome.failures
        rounds = [each for rank in range(2) for each in of_type(records(directory, f"node.{rank}"), Round)]
        sent = sum(each.sent.payload for each in rounds)
        received = sum(each.received.payload for each in rounds)
        assert 0 < received <= sent


def test_a_paused_node_goes_on_where_it_was(tmp_path: Path) -> None:
    events = "  - {at: 0.01s, node: node.1, do: pause}\n  - {at: 3.01s, node: node.1, do: resume}\n"
    directory, outcome = run(plan_of(star(3, events)), tmp_path)
    assert not outcome.failures
    first = of_type(records(directory, "node.1"), Round)[0]
    assert first.phases.train == pytest.approx(3.04)
    assert of_type(records(directory, "node.0"), Round)[0].phases.wait > 2.9


def test_a_node_that_joins_late_does_its_part(tmp_path: Path) -> None:
    topology = star(4, "  - {at: 1s, node: node.3, do: join}\n")
    directory, outcome = run(plan_of(topology, overlay={"kind": "full"}), tmp_path)
    assert not outcome.failures
    found = records(directory, "node.3")
    assert found[0].t == 1
    assert len(of_type(found, Round)) == 4


def test_a_network_that_is_cut_holds_everybody_up_until_it_is_there_again(tmp_path: Path) -> None:
    events = "  - {at: 0.03s, bridge: hub, state: down}\n  - {at: 4s, bridge: hub, state: up}\n"
    directory, outcome = run(plan_of(star(3, events)), tmp_path)
    assert not outcome.failures
    assert 4 < of_type(records(directory, "node.0"), Round)[0].t < 8
    log = of_type(records(directory, None), Event)
    assert [each.planned_t for each in log if each.what == "network-changed"] == [0.03, 4.0]


@pytest.mark.slow
def test_a_run_whose_directory_is_removed_ends(tmp_path: Path) -> None:
    """Its journals are open, and could be written to for ever."""
    plan = plan_of(star(3), stop={"rounds": 1_000_000}, evaluation={"every": 1_000_000, "samples": 10})
    removing = Timer(0.5, lambda: shutil.rmtree(tmp_path / "run", ignore_errors=True))
    removing.start()
    with pytest.raises(CannotWrite, match="was removed while the run went on"):
        run(plan, tmp_path)
    removing.join()


EARLY = """
from testbed.node.algorithm import Algorithm
class Mine(Algorithm):
    async def run(self, node):
        async for number in node.rounds():
            await node.train()
            if node.rank == 1 and number == 3:
                break
"""


def test_no_average_is_of_fewer_than_stayed(tmp_path: Path) -> None:
    """As with real processes: one node is done before the others, and what they do then has no average."""
    source = tmp_path / "mine.py"
    source.write_text(EARLY)
    settings: dict[str, Any] = {"evaluation": {"every": 1, "samples": 100}, "stop": {"rounds": 12}}
    directory, outcome = run(plan_of(star(3), algorithm={"name": f"{source}:Mine"}, **settings), tmp_path)
    assert (outcome.reason, outcome.finished) == ("finished", 3)
    told = records(directory, None)
    assert [(each.round, each.nodes) for each in told if isinstance(each, Average)] == [(0, 3), (1, 3), (2, 3)]
    lost = [each.detail for each in told if isinstance(each, Event) and each.what == "average-lost"]
    assert sorted(lost, key=lambda detail: int(detail.split()[1].rstrip(":"))) == [
        f"round {number}: not every learner came that far" for number in range(3, 12)
    ]
