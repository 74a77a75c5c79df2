"""What every runtime keeps to: each algorithm, each way to end, and everything that can happen to a node.

The same plans run in virtual time and with real processes over the fabric. Nothing here depends on how long a real
machine takes: the bounds are those of the plan.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from testbed.control.outcome import Outcome
from testbed.plan.model import RunPlan
from testbed.records import End, Evaluation, Event, Over, Round, Start
from testbed.rundir import RunDirectory
from tests.runtimes import local_runs, sim_runs
from tests.runtimes.sim_runs import plan_of, records, star

Run = Callable[[RunPlan, Path], tuple[RunDirectory, Outcome]]

NODES = tuple(f"node.{rank}" for rank in range(4))
PATIENT = {"after": "0.5s", "then": "skip"}

ALGORITHMS: dict[str, dict[str, Any]] = {
    "dpsgd": {"overlay": {"kind": "ring"}},
    "dynamic": {"overlay": {"kind": "regular", "degree": 2, "dynamic": True}},
    "sampler": {"overlay": {"kind": "regular", "degree": 2, "dynamic": True, "peers": "sampler"}},
    "epidemic": {"algorithm": {"name": "epidemic"}},
    "fedavg": {"algorithm": {"name": "fedavg"}},
    "parameter-server": {"algorithm": {"name": "parameter-server"}, "training": {"lr": 0.1, "batch": 8, "steps": 1}},
    "topk": {"sharing": {"name": "topk"}, "overlay": {"kind": "ring"}},
}
LOCKSTEP = {"dpsgd", "dynamic", "sampler", "topk"}
"""Those whose models are the same wherever they run: nothing depends on who is faster."""


@pytest.fixture(params=["sim", pytest.param("local", marks=local_runs.needs_network)])
def run(request: pytest.FixtureRequest) -> Run:
    return sim_runs.run if request.param == "sim" else local_runs.run


def ends(directory: RunDirectory) -> dict[str, str]:
    found = {}
    for name in NODES:
        last = records(directory, name)[-1]
        found[name] = last.reason if isinstance(last, End) else "nothing"
    return found


def events(directory: RunDirectory, what: str) -> list[Event]:
    return [each for each in records(directory, None) if isinstance(each, Event) and each.what == what]


class TestEveryRuntime:
    @pytest.mark.parametrize("name", ALGORITHMS)
    def test_runs_every_algorithm_to_its_end(self, name: str, run: Run, tmp_path: Path) -> None:
        plan = plan_of(star(4), **{"stop": {"rounds": 3}, **ALGORITHMS[name]})
        directory, outcome = run(plan, tmp_path)
        assert (outcome.reason, outcome.finished, outcome.failures, outcome.broken) == ("finished", 4, (), ())
        assert ends(directory) == dict.fromkeys(NODES, "finished")
        sent = received = 0
        for name_of_node in NODES:
            first, *between, last = records(directory, name_of_node)
            assert isinstance(first, Start)
            assert isinstance(last, End)
            assert last.t >= first.t
            sent += last.sent.payload
            received += last.received.payload
            assert first.learner is None or any(isinstance(each, Round) for each in between)
        assert 0 < received <= sent
        over = records(directory, None)[-1]
        assert isinstance(over, Over)
        assert (over.reason, over.finished, over.failed) == ("finished", 4, 0)

    def test_a_node_that_crashes_is_missed_and_comes_back(self, run: Run, tmp_path: Path) -> None:
        what = "  - {at: 0.3s, node: node.3, do: crash}\n  - {at: 1.2s, node: node.3, do: join}\n"
        settings = {"overlay": {"kind": "full"}, "stop": {"time": "4s"}, "missing": PATIENT, "rejoin": "last"}
        directory, outcome = run(plan_of(star(4, what), **settings), tmp_path)
        assert (outcome.reason, outcome.failures) == ("time", ())
        found = records(directory, "node.3")
        starts = [each for each in found if isinstance(each, Start)]
        assert [each.rejoin for each in starts] == [None, "last"]
        assert starts[1].t >= 1.2
        assert starts[1].round > 0
        assert ends(directory) == dict.fromkeys(NODES, "stopped")
        assert [each.planned_t for each in events(directory, "crash")] == [0.3]
        assert [each.planned_t for each in events(directory, "join")] == [1.2]
        again = [each for each in found[found.index(starts[1]) :] if isinstance(each, Round)]
        assert again
        assert sum(each.received.payload for each in again) > 0

    def test_a_node_that_leaves_says_goodbye(self, run: Run, tmp_path: Path) -> None:
        what = "  - {at: 0.3s, node: node.3, do: leave}\n"
        directory, outcome = run(plan_of(star(4, what), stop={"rounds": 20}, missing=PATIENT), tmp_path)
        assert (outcome.reason, outcome.finished, outcome.failures) == ("finished", 4, ())
        assert ends(directory) == {**dict.fromkeys(NODES, "finished"), "node.3": "left"}

    def test_a_node_may_join_later(self, run: Run, tmp_path: Path) -> None:
        what = "  - {at: 0.5s, node: node.3, do: join}\n"
        settings = {"stop": {"time": "2s"}, "missing": PATIENT}
        directory, outcome = run(plan_of(star(4, what), **settings), tmp_path)
        assert not outcome.failures
        (start,) = (each for each in records(directory, "node.3") if isinstance(each, Start))
        assert 0.5 <= start.t < 2.0
        assert start.rejoin == "fresh"

    def test_a_paused_node_goes_on(self, run: Run, tmp_path: Path) -> None:
        what = "  - {at: 0.3s, node: node.1, do: pause}\n  - {at: 1.8s, node: node.1, do: resume}\n"
        directory, outcome = run(plan_of(star(4, what), stop={"rounds": 30}, overlay={"kind": "full"}), tmp_path)
        assert (outcome.reason, outcome.failures) == ("finished", ())
        rounds = [each for each in records(directory, "node.0") if isinstance(each, Round)]
        assert max(later.t - before.t for before, later in pairwise(rounds)) > 1.0

    def test_a_disconnected_node_is_reached_again(self, run: Run, tmp_path: Path) -> None:
        what = "  - {at: 0.3s, node: node.1, do: disconnect}\n  - {at: 1.5s, node: node.1, do: reconnect}\n"
        directory, outcome = run(plan_of(star(4, what), stop={"rounds": 30}, overlay={"kind": "full"}), tmp_path)
        assert (outcome.reason, outcome.failures) == ("finished", ())
        assert ends(directory) == dict.fromkeys(NODES, "finished")
        rounds = [each for each in records(directory, "node.0") if isinstance(each, Round)]
        assert max(later.t - before.t for before, later in pairwise(rounds)) > 0.8

    def test_a_partition_heals(self, run: Run, tmp_path: Path) -> None:
        what = "  - {at: 0.3s, partition: [[node.0, node.1], [node.2, node.3]], for: 1s}\n"
        directory, outcome = run(plan_of(star(4, what), stop={"rounds": 30}, overlay={"kind": "full"}), tmp_path)
        assert (outcome.reason, outcome.failures) == ("finished", ())
        assert [each.planned_t for each in events(directory, "network-changed")] == [0.3, 1.3]

    def test_stops_when_its_time_is_over(self, run: Run, tmp_path: Path) -> None:
        directory, outcome = run(plan_of(star(4), stop={"time": "1s"}), tmp_path)
        assert (outcome.reason, outcome.failures) == ("time", ())
        assert ends(directory) == dict.fromkeys(NODES, "stopped")
        for name in NODES:
            assert all(each.t <= 2.0 for each in records(directory, name) if isinstance(each, Round))

    def test_stops_when_it_is_good_enough(self, run: Run, tmp_path: Path) -> None:
        settings = {"stop": {"rounds": 500, "accuracy": 0.3}, "evaluation": {"every": 2, "samples": 100}}
        directory, outcome = run(plan_of(star(4), **settings), tmp_path)
        assert (outcome.reason, outcome.failures) == ("accuracy", ())
        assert outcome.last is not None
        assert outcome.last.rounds < 500
        last = [[each for each in records(directory, name) if isinstance(each, Evaluation)][-1] for name in NODES]
        assert all(each.accuracy is not None and each.accuracy > 0.1 for each in last)

    def test_tells_of_code_that_is_wrong(self, run: Run, tmp_path: Path) -> None:
        source = tmp_path / "wrong.py"
        source.write_text(
            "from testbed.node.algorithm import Algorithm\n\n\n"
            "class Wrong(Algorithm):\n    async def run(self, node):\n        raise ValueError('on purpose')\n"
        )
        directory, outcome = run(plan_of(star(4), algorithm={"name": f"{source}:Wrong"}), tmp_path)
        assert outcome.reason == "failed"
        failure = outcome.failures[0].failure
        assert (failure.file, failure.line) == ("wrong.py", 6)
        assert "on purpose" in failure.message
        assert set(ends(directory).values()) <= {"failed", "stopped"}


@local_runs.needs_network
@pytest.mark.parametrize("name", sorted(LOCKSTEP & {"dpsgd", "sampler"}))
def test_the_models_of_both_worlds_are_the_same(name: str, tmp_path: Path) -> None:
    plan = plan_of(star(4), **ALGORITHMS[name])
    worlds = [made(plan, tmp_path / world)[0] for world, made in (("s", sim_runs.run), ("l", local_runs.run))]
    for node in NODES:
        scores = [
            [(each.round, each.accuracy, each.loss) for each in records(world, node) if isinstance(each, Evaluation)]
            for world in worlds
        ]
        assert scores[0]
        assert scores[0] == [pytest.approx(each, rel=1e-6) for each in scores[1]]
