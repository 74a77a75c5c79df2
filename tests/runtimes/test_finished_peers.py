"""Which peers have finished: all nodes know it as soon as nothing of them can come, and none waits for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from testbed.control.outcome import Outcome
from testbed.records import End, Event
from testbed.rundir import RunDirectory
from tests.runtimes.sim_runs import plan_of, records, run, star, texts
from tests.runtimes.test_sim import of_type

CODE = '''"""Nodes that do not end together: node 0 does two rounds, and the others as many as the experiment says."""

import json

import numpy as np

from testbed.node.algorithm import Algorithm
from testbed.node.algorithms.dpsgd import DPSGD
from testbed.node.messages import Message

ROUNDS = {0: 2}


class Early(DPSGD):
    async def run(self, node):
        async for round_ in node.rounds():
            if round_ >= ROUNDS.get(node.rank, 9):
                await node.sleep(self.lingers_s)
                return
            await node.train()
            node.send(node.others, self.sharing.encode(node.model, round_))
            received = await node.gather(node.others, round_, enough=self.enough)
            self.sharing.average(node.model, received, degree=len(node.others))

    def __init__(self, enough: int | None = None, lingers_s: float = 0.0):
        self.enough = enough
        self.lingers_s = lingers_s


class Watch(Algorithm):
    async def run(self, node):
        known = frozenset()
        async for round_ in node.rounds():
            if round_ >= 3 * (1 + node.rank):
                node.send(node.others, Message("last", round_, {}, (np.zeros(20_000, np.float32),)))
                return
            await node.train()
            if known != node.finished_peers:
                known = node.finished_peers
                node.note("knows", json.dumps([sorted(known), len(node.arrived())]))


class Last(Algorithm):
    async def run(self, node):
        if node.rank:
            assert await node.receive(sender=0) is not None
            assert await node.receive(sender=0) is None
            node.note("known", json.dumps([node.now(), sorted(node.finished_peers)]))
        else:
            node.send(node.others, Message("word", 0))
            await node.sleep(self.lingers_s)

    def __init__(self, lingers_s: float = 0.0):
        self.lingers_s = lingers_s


class Ticks(Algorithm):
    async def run(self, node):
        self.bare = __import__("asyncio").create_task(self.tick(node, "bare"))
        node.spawn(self.tick(node, "spawned"))
        async for _ in node.rounds():
            await node.train()

    async def tick(self, node, name):
        try:
            while True:
                await node.sleep(0.05)
                self.tell(node, name)
        finally:
            await node.sleep(0.01)
            self.tell(node, name)

    def tell(self, node, name):
        with (node.folder / name).open("a") as file:
            print(node.now(), file=file)
'''
PATIENT: dict[str, Any] = {"after": "60s", "then": "skip"}


def tried(folder: Path, name: str, events: str = "", shuffle: int | None = None, **settings: Any) -> Any:
    folder.mkdir(exist_ok=True)
    code = folder.parent / "mine.py"  # one name in all runs of a test
    code.write_text(CODE)
    algorithm = {"name": f"{code}:{name}", "options": settings.pop("options", {})}
    settings = {"overlay": {"kind": "full"}, "missing": PATIENT, "evaluation": {"mode": "none"}, **settings}
    return run(plan_of(star(4, events), algorithm=algorithm, **settings), folder, shuffle=shuffle)


def notes(directory: RunDirectory, node: str, what: str) -> list[Event]:
    return [each for each in of_type(records(directory, node), Event) if each.what == what]


def end_of(directory: RunDirectory, node: str) -> End:
    return next(each for each in records(directory, node) if isinstance(each, End))


@pytest.mark.parametrize("options", [{}, {"enough": 3}, {"lingers_s": 1.0}], ids=["before", "enough", "meanwhile"])
def test_gathering_goes_on_at_once_without_a_peer_that_has_finished(options: dict[str, Any], tmp_path: Path) -> None:
    directory, outcome = tried(tmp_path / "run", "Early", options=options, stop={"rounds": 6})
    assert (outcome.reason, outcome.finished, outcome.failures) == ("finished", 4, ())
    assert outcome.t < 2.0
    for name in ("node.1", "node.2", "node.3"):
        assert [each.detail for each in notes(directory, name, "peer-missing")] == ["round 2: node.0: skip"]
        assert end_of(directory, name).rounds == 6


def test_nothing_is_missed_where_enough_others_can_come(tmp_path: Path) -> None:
    directory, outcome = tried(tmp_path / "run", "Early", options={"enough": 2}, stop={"rounds": 6})
    assert not outcome.failures
    assert not any(notes(directory, f"node.{rank}", "peer-missing") for rank in range(4))


def test_a_peer_that_has_finished_ends_a_node_that_shall_not_miss_any(tmp_path: Path) -> None:
    _, outcome = tried(tmp_path / "run", "Early", missing={**PATIENT, "then": "abort"}, stop={"rounds": 6})
    assert outcome.t < 2.0
    assert {each.failure.message for each in outcome.failures} == {"node.0 sent nothing for round 2"}


def test_nodes_that_shall_wait_for_a_peer_that_has_finished_wait_in_vain(tmp_path: Path) -> None:
    directory, outcome = tried(tmp_path / "run", "Early", missing={**PATIENT, "then": "wait"}, stop={"rounds": 6})
    assert outcome.reason == "failed"
    assert all("waits for node.0 in round 2, in vain" in each.failure.message for each in outcome.failures)
    assert notes(directory, "node.1", "peer-missing")[0].detail == "round 2: node.0: wait"
    assert notes(directory, "node.1", "peer-missing")[0].t < 2.0


def watched(folder: Path, shuffle: int | None) -> tuple[RunDirectory, Outcome]:
    found: tuple[RunDirectory, Outcome] = tried(folder, "Watch", shuffle=shuffle, stop={"rounds": 20})
    return found


def test_all_nodes_know_it_when_the_last_message_is_there_in_any_order(tmp_path: Path) -> None:
    directory, _ = watched(tmp_path / "in-order", None)
    for rank in range(4):
        knows = [json.loads(each.detail) for each in notes(directory, f"node.{rank}", "knows")]
        assert knows == [[list(range(count)), 1] for count in range(1, rank + 1)]
    for shuffle in (1, 2, 3):
        other, _ = watched(tmp_path / str(shuffle), shuffle)
        assert texts(other) == texts(directory)


def test_it_is_known_though_nothing_else_happens_any_more(tmp_path: Path) -> None:
    directory, outcome = tried(tmp_path / "run", "Last")
    assert (outcome.reason, outcome.failures) == ("finished", ())
    for name in ("node.1", "node.2", "node.3"):
        (known,) = notes(directory, name, "known")
        assert json.loads(known.detail) == [known.t, [0]]


@pytest.mark.parametrize("at", ["1ms", "500ms"], ids=["before the message", "after it"])
def test_a_paused_node_learns_it_when_it_goes_on(at: str, tmp_path: Path) -> None:
    events = f"  - {{at: {at}, node: node.2, do: pause}}\n  - {{at: 3s, node: node.2, do: resume}}\n"
    directory, outcome = tried(tmp_path / "run", "Last", events, options={"lingers_s": 0.9})
    assert not outcome.failures
    assert end_of(directory, "node.1").t < 1.0
    assert end_of(directory, "node.2").t == 3.0


def test_a_peer_that_has_left_counts_until_it_is_back_and_a_crashed_one_never(tmp_path: Path) -> None:
    times = (("node.1", "0.2s", "leave"), ("node.1", "1s", "join"), ("node.2", "1.5s", "crash"))
    events = "".join(f"  - {{at: {at}, node: {node}, do: {do}}}\n" for node, at, do in times)
    (tmp_path / "mine.py").write_text(
        CODE.replace("if round_ >= 3 * (1 + node.rank):", "if False:").replace(
            "            await node.train()\n            if known",
            "            node.send(node.others, Message('x', 0))\n            await node.train()\n            if known",
        )
    )
    settings: dict[str, Any] = {"missing": PATIENT, "evaluation": {"mode": "none"}, "stop": {"time": "2s"}}
    plan = plan_of(star(4, events), algorithm=f"{tmp_path / 'mine.py'}:Watch", **settings)
    directory, _ = run(plan, tmp_path)
    knows = [(each.t, json.loads(each.detail)[0]) for each in notes(directory, "node.0", "knows")]
    assert [ranks for _, ranks in knows] == [[1], []]
    assert 0.2 < knows[0][0] < 0.4
    assert 1.0 < knows[1][0] < 1.2


def test_nothing_goes_on_in_a_node_that_has_crashed(tmp_path: Path) -> None:
    events = "  - {at: 0.32s, node: node.2, do: crash}\n  - {at: 1.01s, node: node.2, do: join}\n"
    directory, outcome = tried(tmp_path / "run", "Ticks", events, stop={"time": "1.5s"})
    assert (outcome.reason, outcome.failures) == ("time", ())
    for name in ("bare", "spawned"):
        ticks = [float(each) for each in (directory.node("node.2").path / name).read_text().split()]
        assert ticks == pytest.approx(
            [*(0.05 * tick for tick in range(1, 7)), *(1.01 + 0.05 * t for t in range(1, 10))]
        )
