"""What every runtime keeps to: each algorithm, each way to share, each way to end, and all that can happen to a node.

The same plans run in every runtime. Nothing here depends on how long a real machine takes: the bounds are those of
the plan.
"""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import pytest
from click.testing import CliRunner

from testbed.cli.main import main
from testbed.control.outcome import Outcome
from testbed.plan.model import RunPlan
from testbed.records import End, Evaluation, Event, Over, Round, Start
from testbed.rundir import RunDirectory
from tests.contract.beside_run import BESIDE, EARLY, FAILS
from tests.contract.payloads import REFUSED, REFUSED_LINE, SENDS, received_from, refused_algorithm
from tests.contract.runtimes import InVirtualTime, Runtime
from tests.contract.traffic import assert_all_take_their_own_way, assert_the_fabric_carried_all
from tests.marking import SOAKED, is_soak
from tests.runtimes.scratch_run import until
from tests.runtimes.sim_runs import plan_of, records, star

NODES = tuple(f"node.{rank}" for rank in range(4))
PATIENT = {"after": "0.5s", "then": "skip"}
SERVED = {"lr": 0.1, "batch": 8, "steps": 1}
Kind = TypeVar("Kind")


class Told(NamedTuple):
    """What came of a command."""

    exit_code: int
    stdout: str
    stderr: str


ALGORITHMS: dict[str, dict[str, Any]] = {
    "dpsgd": {"overlay": {"kind": "ring"}},
    "dynamic": {"overlay": {"kind": "regular", "degree": 2, "dynamic": True}},
    "sampler": {"overlay": {"kind": "regular", "degree": 2, "dynamic": True, "peers": "sampler"}},
    "epidemic-oracle": {"algorithm": {"name": "epidemic", "mode": "oracle"}},
    "epidemic-local": {"algorithm": {"name": "epidemic", "mode": "local"}},
    "divshare": {"algorithm": {"name": "divshare"}},
    "mosaic": {"algorithm": {"name": "mosaic"}},
    "shatter": {"algorithm": {"name": "shatter", "virtual_nodes": 3}},
    "adpsgd": {"algorithm": {"name": "adpsgd"}, "overlay": {"kind": "ring"}},
    "adpsgd-free": {"algorithm": {"name": "adpsgd", "exchanges_per_iter": "free"}, "overlay": {"kind": "full"}},
    "adpsgd-pushpull": {"algorithm": {"name": "adpsgd-pushpull"}},
    "swift": {"algorithm": {"name": "swift"}, "overlay": {"kind": "ring"}},
    "swift-without-memory": {"algorithm": {"name": "swift", "memory": False, "boost": True, "steps_between": 2}},
    "swift-random": {"algorithm": {"name": "swift-random"}},
    "gossip": {"algorithm": {"name": "gossip", "mode": "push-pull", "period": "200ms"}, "overlay": {"kind": "ring"}},
    "cyclon": {
        "algorithm": {"name": "gossip", "period": "200ms"},
        "overlay": {"kind": "cyclon", "degree": 2, "period": "300ms"},
    },
    "teleportation": {"algorithm": {"name": "teleportation"}, "rejoin": "last"},
    "plexus": {"algorithm": {"name": "plexus", "success_fraction": 1}},
    "conflux": {"algorithm": {"name": "plexus", "aggregate": "all", "success_fraction": 1}},
    "fedavg": {"algorithm": {"name": "fedavg"}},
    "parameter-server": {"algorithm": {"name": "parameter-server"}, "training": SERVED},
    "asynchronous": {"algorithm": {"name": "parameter-server", "mode": "async"}, "training": SERVED},
    "stale-synchronous": {
        "algorithm": {"name": "parameter-server", "mode": "async", "max_lead": 1, "damping": "staleness"},
        "training": SERVED,
    },
    "random": {"sharing": {"name": "random"}, "overlay": {"kind": "ring"}},
    "topk": {"sharing": {"name": "topk"}, "overlay": {"kind": "ring"}},
}
COMMANDS = (
    "status RUN --format json",
    "logs RUN node.0",
    "collect RUN --format json",
    "exec RUN node.0 -- cat /proc/net/fib_trie",
    "capture RUN node.0 --for 300ms -o {pcap}",
    "link show RUN node.0 hub",
    "link set RUN node.0 hub --latency 7ms",
    "link reset RUN",
    "fault pause RUN node.3",
    "fault resume RUN node.3",
    "fault disconnect RUN node.3",
    "fault reconnect RUN node.3",
    "fault partition RUN node.0,node.1 / node.2,node.3 --for 100ms",
    "fault flap RUN node.0 hub --for 100ms",
    "fault kill RUN node.3",
    "fault join RUN node.3",
    "fault leave RUN node.2",
    "fault crash RUN node.1 --for 100ms",
)
"""What can be asked of a run that goes on, in this order: a later one builds upon those before."""
NODE_FAULTS = ("pause", "resume", "disconnect", "reconnect", "kill", "join")
SELDOM = {"every": 20, "samples": 20}
LOCKSTEP = ALGORITHMS.keys() - {
    "asynchronous",
    "stale-synchronous",
    "adpsgd",
    "adpsgd-free",
    "adpsgd-pushpull",
    "divshare",
    "gossip",
    "cyclon",
    "swift",
    "swift-without-memory",
    "swift-random",
}
"""Those in which nothing depends on who is faster: what they learn and send is the same wherever they run."""


def told(words: str, run: RunDirectory) -> Told:
    """The command, with RUN in place; in this process, unless it becomes another program."""
    arguments = [str(run.path) if each == "RUN" else each for each in words.split()]
    if arguments[0] == "exec":
        done = subprocess.run(
            [sys.executable, "-m", "testbed", *arguments], capture_output=True, text=True, check=False
        )
        assert "Traceback" not in done.stderr
        return Told(done.returncode, done.stdout, done.stderr)
    result = CliRunner().invoke(main, arguments)
    assert isinstance(result.exception, SystemExit | None), result.exception
    return Told(result.exit_code, result.stdout, result.stderr)


def ends(directory: RunDirectory) -> dict[str, str]:
    found = {}
    for name in NODES:
        last = records(directory, name)[-1]
        found[name] = last.reason if isinstance(last, End) else "nothing"
    return found


def events(directory: RunDirectory, what: str) -> list[Event]:
    return [each for each in records(directory, None) if isinstance(each, Event) and each.what == what]


def of_kind(directory: RunDirectory, node: str, kind: type[Kind]) -> list[Kind]:
    return [each for each in records(directory, node) if isinstance(each, kind)]


def longest_wait(directory: RunDirectory, node: str) -> float:
    """Emulated seconds between two rounds."""
    return max(later.t - before.t for before, later in pairwise(of_kind(directory, node, Round)))


def what_was_learned(directory: RunDirectory) -> list[Any]:
    """Scores and bytes of all nodes, without any time."""
    return [
        (
            [(each.round, each.accuracy, each.loss) for each in of_kind(directory, node, Evaluation)],
            [(each.sent.payload, each.received.payload) for each in of_kind(directory, node, End)],
            [each.round for each in of_kind(directory, node, Round)],
        )
        for node in NODES
    ]


def snapshots(directory: RunDirectory) -> list[list[tuple[str, bytes]]]:
    """Models of all nodes, to the bit."""
    folders = [directory.node(node).snapshots for node in NODES]
    return [[(each.name, each.read_bytes()) for each in sorted(folder.iterdir())] for folder in folders]


SICK = """from testbed.node.algorithm import Algorithm


class Sick(Algorithm):
    async def run(self, node):
        async for round in node.rounds():
            await node.train()
            neighbours = await node.neighbours(round)
            sent = node.model.copy()
            if node.rank == 1:
                sent[0] = float("nan")
            await node.send(neighbours, self.sharing.encode(sent, round))
            received = await node.gather(neighbours, round)
            self.sharing.average(node.model, received)
"""


PUSHES = """\
import json

import numpy as np

from testbed.node.algorithm import Algorithm
from testbed.node.messages import Message


class Pushes(Algorithm):
    waits = False

    async def run(self, node):
        tickets = []
        async for round_ in node.rounds():
            await node.train()
            values = np.full(25_000, round_, np.float32)
            tickets += await node.send(node.others, Message("model", round_, {}, (values,)))
        for ticket in tickets:
            await ticket.settled()
        told = [(each.to, each.message.round, each.state, each.sent_bytes, each.nbytes) for each in tickets]
        (node.folder / "tickets.json").write_text(json.dumps(told))
"""


REMEMBERS = """\
from testbed.node.algorithms.dpsgd import DPSGD


class Remembers(DPSGD):
    kept = None

    def state(self):  # whenever a snapshot is made
        if self.kept is not None:
            with self.kept.open("ab") as file:
                file.write(self.sharing.state()["change"].tobytes())
        return super().state()

    async def run(self, node):
        life = "second" if node.came_back else "first"
        (node.folder / f"begun-{life}").write_bytes(self.sharing.state()["change"].tobytes())
        self.kept = node.folder / f"kept-{life}"
        await super().run(node)
"""


class RuntimeContract:
    """Subclasses name the runtime."""

    runtime: ClassVar[Runtime]
    algorithms: ClassVar[frozenset[str]] = frozenset(ALGORITHMS)
    """Those that a runtime is tried with; a soak tries all."""
    soaked: ClassVar[frozenset[str]] = frozenset()
    """Tests that only a soak has time for."""

    @pytest.fixture(autouse=True)
    def _only_what_there_is_time_for(self, request: pytest.FixtureRequest) -> None:
        if request.function.__name__ in self.soaked and not is_soak():
            pytest.skip(SOAKED)

    def run(self, plan: RunPlan, folder: Path, runtime: Runtime | None = None) -> tuple[RunDirectory, Outcome]:
        """A whole run, all of whose bytes went where they should."""
        directory, outcome = (runtime or self.runtime).run(plan, folder)
        if self.runtime.has_packets:
            assert_the_fabric_carried_all(directory, NODES)
        return directory, outcome

    @pytest.mark.parametrize("name", ALGORITHMS)
    def test_runs_every_algorithm_to_its_end(self, name: str, tmp_path: Path) -> None:
        if name not in self.algorithms and not is_soak():
            pytest.skip(SOAKED)
        plan = plan_of(star(4), **{"stop": {"rounds": 3}, "snapshots": {"every": 3}, **ALGORITHMS[name]})
        directory, outcome = self.run(plan, tmp_path)
        assert (outcome.reason, outcome.finished, outcome.failures, outcome.broken) == ("finished", 4, (), ())
        assert ends(directory) == dict.fromkeys(NODES, "finished")
        sent = received = 0
        for node in NODES:
            first, *between, last = records(directory, node)
            assert isinstance(first, Start)
            assert isinstance(last, End)
            assert last.t >= first.t
            assert first.learner is None or last.sent.payload > 0
            sent += last.sent.payload
            received += last.received.payload
            rounds = [each.round for each in between if isinstance(each, Round)]
            # If no node waits for others, a node that gets the processor less often does a smaller share of all steps.
            least = 3 if name in LOCKSTEP else 1
            assert first.learner is None or (len(rounds) >= least and rounds == list(range(len(rounds))))
        assert 0 < received <= sent
        over = records(directory, None)[-1]
        assert isinstance(over, Over)
        assert (over.reason, over.finished, over.failed) == ("finished", 4, 0)
        if name in LOCKSTEP:
            self._assert_the_same_in_virtual_time(plan, directory, tmp_path, models=name == "dpsgd")

    def _assert_the_same_in_virtual_time(
        self, plan: RunPlan, directory: RunDirectory, folder: Path, *, models: bool
    ) -> None:
        (folder / "virtual").mkdir()
        other, _ = InVirtualTime().run(plan, folder / "virtual")
        found, expected = what_was_learned(directory), what_was_learned(other)
        assert [each[1:] for each in found] == [each[1:] for each in expected]
        for mine, theirs in zip(found, expected, strict=True):
            assert len(theirs[0]) >= 1 or not models
            assert mine[0] == [pytest.approx(each, rel=1e-6) for each in theirs[0]]
        if models:
            assert snapshots(directory) == snapshots(other)
            assert [name for each in snapshots(directory) for name, _ in each] == ["round-000003.f32"] * 4

    def test_a_node_that_crashes_is_missed_and_comes_back(self, tmp_path: Path) -> None:
        what = "  - {at: 0.3s, node: node.3, do: crash}\n  - {at: 1.2s, node: node.3, do: join}\n"
        ending = {"stop": {"time": f"{3 + self.runtime.new_life_s}s"}, "evaluation": SELDOM}
        settings = {"overlay": {"kind": "full"}, "missing": PATIENT, "rejoin": "last", **ending}
        directory, outcome = self.run(plan_of(star(4, what), **settings), tmp_path)
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

    def test_a_crashed_peer_keeps_no_message_to_others_from_being_sent(self, tmp_path: Path) -> None:
        source = tmp_path / "pushes.py"
        source.write_text(PUSHES)
        settings = {
            "missing": {"after": "1s", "then": "skip"},
            "outbox": {"in_flight": 1},
            "compute": {"ms_per_step": 75},
            "stop": {"rounds": 30},
            "evaluation": {"mode": "none"},
        }
        plan = plan_of(
            star(4, "  - {at: 600ms, node: node.3, do: crash}\n"), algorithm={"name": f"{source}:Pushes"}, **settings
        )
        directory, outcome = self.run(plan, tmp_path, self.runtime.knowing(source))
        assert (outcome.reason, outcome.failures) == ("finished", ())
        for rank, name in enumerate(NODES[:3]):
            given_up = [each for each in of_kind(directory, name, Event) if each.what == "sends-given-up"]
            assert [each.detail for each in given_up] == ["to node.3"]
            assert 1.5 <= given_up[0].t < 4.0
            tickets = json.loads((directory.node(name).path / "tickets.json").read_text())
            (end,) = of_kind(directory, name, End)
            assert sum(sent for *_, sent, _ in tickets) == end.sent.payload + end.sent.metadata
            assert all(sent == whole for _, _, state, sent, whole in tickets if state == "left")
            assert {state for to, _, state, *_ in tickets if to == 3} <= {"left", "dropped"}
            assert ("dropped", 3) in {(state, to) for to, _, state, *_ in tickets}
            for to in {0, 1, 2} - {rank}:
                # Its last ones are dropped if the other node has finished by then. The crash is in round 8.
                left = [round_ for other, round_, state, *_ in tickets if (other, state) == (to, "left")]
                assert left == list(range(len(left)))
                assert len(left) >= 12

    def test_what_a_sharing_remembers_outlives_a_crash(self, tmp_path: Path) -> None:
        source = tmp_path / "remembers.py"
        source.write_text(REMEMBERS)
        what = "  - {at: 0.5s, node: node.3, do: crash}\n  - {at: 1.2s, node: node.3, do: join}\n"
        ending = {"stop": {"time": f"{3 + self.runtime.new_life_s}s"}, "evaluation": SELDOM}
        settings = {"sharing": "topk", "overlay": {"kind": "full"}, "missing": PATIENT, "rejoin": "last", **ending}
        plan = plan_of(star(4, what), algorithm={"name": f"{source}:Remembers"}, **settings)
        directory, outcome = self.run(plan, tmp_path, self.runtime.knowing(source))
        assert (outcome.reason, outcome.failures) == ("time", ())
        folder = directory.node("node.3").path
        begun, kept = (folder / "begun-second").read_bytes(), (folder / "kept-first").read_bytes()
        assert any(begun)
        rounds = [kept[at : at + len(begun)] for at in range(0, len(kept), len(begun))]
        assert begun in rounds[-2:], "it may have died while it wrote the last"
        assert not any((folder / "begun-first").read_bytes())

    def test_a_node_that_leaves_says_goodbye(self, tmp_path: Path) -> None:
        what = "  - {at: 0.3s, node: node.3, do: leave}\n"
        directory, outcome = self.run(plan_of(star(4, what), stop={"rounds": 15}, missing=PATIENT), tmp_path)
        assert (outcome.reason, outcome.finished, outcome.failures) == ("finished", 4, ())
        assert ends(directory) == {**dict.fromkeys(NODES, "finished"), "node.3": "left"}

    def test_a_node_may_join_later(self, tmp_path: Path) -> None:
        what = "  - {at: 0.5s, node: node.3, do: join}\n"
        stop_s = 2 + self.runtime.new_life_s
        settings = {"stop": {"time": f"{stop_s}s"}, "missing": PATIENT, "evaluation": SELDOM}
        directory, outcome = self.run(plan_of(star(4, what), **settings), tmp_path)
        assert not outcome.failures
        (start,) = of_kind(directory, "node.3", Start)
        assert 0.5 <= start.t < stop_s
        assert start.rejoin == "fresh"

    def test_a_paused_node_goes_on(self, tmp_path: Path) -> None:
        what = "  - {at: 0.3s, node: node.1, do: pause}\n  - {at: 1.5s, node: node.1, do: resume}\n"
        plan = plan_of(star(4, what), stop={"rounds": 20}, overlay={"kind": "full"})
        directory, outcome = self.run(plan, tmp_path)
        assert (outcome.reason, outcome.failures) == ("finished", ())
        assert longest_wait(directory, "node.0") > 0.8

    def test_a_disconnected_node_is_reached_again(self, tmp_path: Path) -> None:
        what = "  - {at: 0.3s, node: node.1, do: disconnect}\n  - {at: 1.5s, node: node.1, do: reconnect}\n"
        plan = plan_of(star(4, what), stop={"rounds": 20}, overlay={"kind": "full"})
        directory, outcome = self.run(plan, tmp_path)
        assert (outcome.reason, outcome.failures) == ("finished", ())
        assert ends(directory) == dict.fromkeys(NODES, "finished")
        assert longest_wait(directory, "node.0") > 0.8

    @pytest.mark.parametrize(
        ("what", "words"),
        [
            (
                "  - {at: 0.3s, partition: [[node.0, node.1], [node.2, node.3]], for: 1s}\n",
                ["partition 2 begins", "partition 2 ends"],
            ),
            (
                "  - {at: 0.3s, link: [node.1, hub], state: down, for: 1s}\n",
                [f"link {ends}: {state}" for state in ("down", "up") for ends in ("hub -> node.1", "node.1 -> hub")],
            ),
        ],
        ids=["partition", "flap"],
    )
    def test_what_divides_the_network_heals(self, what: str, words: list[str], tmp_path: Path) -> None:
        plan = plan_of(star(4, what), stop={"rounds": 20}, overlay={"kind": "full"})
        directory, outcome = self.run(plan, tmp_path)
        assert (outcome.reason, outcome.failures) == ("finished", ())
        changes = events(directory, "network-changed")
        told = [(0.3 if number < len(words) / 2 else 1.3, each) for number, each in enumerate(words)]
        assert sorted((each.planned_t, each.detail) for each in changes) == sorted(told)
        assert longest_wait(directory, "node.0") > 0.6

    def test_stops_when_its_time_is_over(self, tmp_path: Path) -> None:
        directory, outcome = self.run(plan_of(star(4), stop={"time": "1s"}), tmp_path)
        assert (outcome.reason, outcome.failures) == ("time", ())
        assert ends(directory) == dict.fromkeys(NODES, "stopped")
        for name in NODES:
            assert all(each.t <= 2.0 for each in of_kind(directory, name, Round))

    def test_stops_when_it_is_good_enough(self, tmp_path: Path) -> None:
        settings = {"stop": {"rounds": 500, "accuracy": 0.3}, "evaluation": {"every": 2, "samples": 100}}
        directory, outcome = self.run(plan_of(star(4), **settings), tmp_path)
        assert (outcome.reason, outcome.failures) == ("accuracy", ())
        assert outcome.last is not None
        assert outcome.last.rounds < 500
        last = [of_kind(directory, name, Evaluation)[-1] for name in NODES]
        assert all(each.accuracy is not None and each.accuracy > 0.1 for each in last)

    @pytest.mark.processes
    def test_does_or_refuses_every_command(self, tmp_path: Path) -> None:
        """One after the other: a run for each would take long, and some of them undo what others did."""
        endless = {"stop": {"rounds": 10**6}, "evaluation": {"every": 1000, "samples": 20}, "missing": PATIENT}
        with self.runtime.going_on(plan_of(star(4), **endless), tmp_path) as long:
            if self.runtime.has_packets:
                assert_all_take_their_own_way(long, NODES)
            self.try_what_only_it_has(long)
            for words in COMMANDS:
                self._try(words, long, tmp_path / "n.pcap")

    def try_what_only_it_has(self, long: RunDirectory) -> None:
        """On a run of this runtime that goes on."""

    def _try(self, words: str, long: RunDirectory, pcap: Path) -> None:
        verb, *rest = words.split()
        done = told(words.format(pcap=pcap), long)
        if verb in self.runtime.refuses:
            assert done.exit_code == 4, (words, done.stderr)
            assert "is in virtual time" in done.stderr, words
            assert "--runtime local" in done.stderr, words
            return
        assert done.exit_code in ((0, 8) if verb == "collect" else (0,)), (words, done.stderr)
        if verb == "fault" and rest[0] in NODE_FAULTS:
            assert [each.node for each in events(long, rest[0])] == ["node.3"]
        if words.startswith("fault join"):
            until(lambda: [each.rejoin for each in of_kind(long, "node.3", Start)] == [None, "fresh"])
        if verb == "capture":
            assert pcap.stat().st_size > 24
        if verb == "exec":
            assert "198.18.0.1" in done.stdout

    def test_tells_who_sent_what_is_no_model(self, tmp_path: Path) -> None:
        """Not who received it, and cannot go on."""
        source = tmp_path / "sick.py"
        source.write_text(SICK)
        plan = plan_of(star(4), algorithm={"name": f"{source}:Sick"})
        _, outcome = self.run(plan, tmp_path, self.runtime.knowing(source))
        told = {each.node: each.failure.message for each in outcome.failures}
        assert outcome.reason == "failed"
        assert any(words.startswith("node.1 sent a model that cannot be used") for words in told.values()), told
        assert not any("sent a model" in words for node, words in told.items() if node == "node.1")

    def test_what_arrives_is_what_was_there_when_it_was_sent(self, tmp_path: Path) -> None:
        source = tmp_path / "sends.py"
        source.write_text(SENDS)
        plan = plan_of(star(4), algorithm={"name": f"{source}:Sends"}, stop={"rounds": 2})
        directory, outcome = self.run(plan, tmp_path, self.runtime.knowing(source))
        assert (outcome.reason, outcome.failures) == ("finished", ())
        for node in NODES:
            notes = of_kind(directory, node, Event)
            told = [each.detail for each in notes if each.what == "received"]
            assert told == [received_from(sender) for sender in range(4)] * 2
            assert [each.detail for each in notes if each.what == "model"] == ["True"] * 8
            assert all("read-only" in each.detail for each in notes if each.what == "written")
            assert len([each for each in notes if each.what == "written"]) == 8

    @pytest.mark.parametrize("name", REFUSED)
    def test_what_cannot_be_sent_ends_at_the_line_that_sends_it(self, name: str, tmp_path: Path) -> None:
        message, wrong, way_out = REFUSED[name]
        source = tmp_path / "sends.py"
        source.write_text(refused_algorithm(message))
        plan = plan_of(star(4), algorithm={"name": f"{source}:Sends"})
        _, outcome = self.run(plan, tmp_path, self.runtime.knowing(source))
        assert (outcome.reason, outcome.exit_code) == ("failed", 6)
        for each in outcome.failures:
            assert (each.failure.file, each.failure.line) == ("sends.py", REFUSED_LINE)
            assert wrong in each.failure.message
            assert way_out in each.failure.message
        assert outcome.failures

    @pytest.mark.parametrize("name", FAILS)
    def test_work_beside_run_that_fails_ends_the_run_with_its_place(self, name: str, tmp_path: Path) -> None:
        start, words, line = FAILS[name]
        source = tmp_path / "beside.py"
        source.write_text(BESIDE.format(start=start))
        plan = plan_of(star(4), algorithm={"name": f"{source}:Beside"}, stop={"rounds": 200}, evaluation=SELDOM)
        directory, outcome = self.run(plan, tmp_path, self.runtime.knowing(source))
        assert (outcome.reason, outcome.exit_code) == ("failed", 6)
        (failed,) = outcome.failures
        assert (failed.node, failed.failure.file, failed.failure.line) == ("node.1", "beside.py", line)
        assert words in failed.failure.message
        assert "Traceback" in directory.node("node.1").log.read_text()

    def test_a_peer_that_has_finished_is_known_soon_and_after_its_last_message(self, tmp_path: Path) -> None:
        source = tmp_path / "early.py"
        source.write_text(EARLY)
        settings = {"missing": {"after": "60s", "then": "skip"}, "stop": {"rounds": 2}, "evaluation": {"mode": "none"}}
        plan = plan_of(star(4), algorithm={"name": f"{source}:Early"}, **settings)
        directory, outcome = self.run(plan, tmp_path, self.runtime.knowing(source))
        assert (outcome.reason, outcome.failures) == ("finished", ())
        (end,) = of_kind(directory, NODES[0], End)
        for name in NODES[1:]:
            seen, missed, gathered = (each for each in of_kind(directory, name, Event) if each.what != "refused")
            t, received, peers = json.loads(seen.detail)
            assert (received, peers) == (3, [0])
            assert end.t <= t < end.t + 0.1 + self.runtime.notices_s
            assert (missed.what, missed.detail) == ("peer-missing", "round 9: node.0: skip")
            at, count = json.loads(gathered.detail)
            assert count == 0
            assert t <= at < t + 0.5

    def test_tells_of_code_that_is_wrong(self, tmp_path: Path) -> None:
        source = tmp_path / "wrong.py"
        source.write_text(
            "from testbed.node.algorithm import Algorithm\n\n\n"
            "class Wrong(Algorithm):\n    async def run(self, node):\n"
            "        (node.folder / 'mine.csv').write_text('mine')\n"
            "        raise ValueError('on purpose')\n"
        )
        plan = plan_of(star(4), algorithm={"name": f"{source}:Wrong"})
        directory, outcome = self.run(plan, tmp_path, self.runtime.knowing(source))
        assert outcome.reason == "failed"
        failure = outcome.failures[0].failure
        assert (failure.file, failure.line) == ("wrong.py", 7)
        assert (directory.node(outcome.failures[0].node).path / "mine.csv").read_text() == "mine"
        assert "on purpose" in failure.message
        told = directory.node(outcome.failures[0].node).log.read_text()  # how it came to that line
        assert "Traceback" in told
        assert told.rstrip().endswith("ValueError: on purpose")
        assert set(ends(directory).values()) <= {"failed", "stopped"}
