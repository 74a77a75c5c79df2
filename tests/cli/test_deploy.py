"""`testbed deploy` as its users meet it: words, exit codes, what lies in the run directory afterwards."""

from __future__ import annotations

import json
import os
import re
from datetime import datetime, tzinfo
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from testbed.cli.main import main
from testbed.plan.files import write_plan
from testbed.rundir import create_run
from tests.runtimes.local_runs import locally
from tests.runtimes.sim_runs import plan_of, star

SMALL = """
services:
  a: {replicas: 4}
bridges: [r]
links: [{from: a, to: r, latency: 1ms, rate: 10Mbps}]
"""
QUICK = ("--data", "digits", "--rounds", "3", "--workers", "0", "--set", "evaluation.samples=50")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL)


def deploy(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["deploy", *arguments])


def on_small(*arguments: str) -> Result:
    return deploy("small.yaml", *QUICK, *arguments)


def journals(run: str) -> dict[str, bytes]:
    folder = Path("results", run)
    files = [folder / "events.jsonl", *folder.glob("nodes/*/journal.jsonl")]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def test_a_run_says_what_it_does_and_what_came_of_it() -> None:
    result = on_small("--run-id", "one")
    assert result.exit_code == 0
    assert result.stdout == ""
    told = result.stderr.splitlines()
    assert told[0].startswith("runtime: sim (")
    assert "preparing digits and mlp for 4 learners" in told
    assert "run one in results/one" in told
    shape = r"finished: 4 nodes, 3 rounds, accuracy 0\.\d{3}, loss \d\.\d{3}, \d+ kB sent, .*s of emulated time in .*s"
    assert re.fullmatch(shape, told[-2])
    assert told[-1] == "next: testbed collect results/one"
    collected = CliRunner().invoke(main, ["collect", "results/one", "--format", "json"])
    assert collected.exit_code == 0
    (run,) = json.loads(collected.stdout)["runs"]
    assert f"accuracy {run['accuracy']['mean']:.3f}" in told[-2]
    sent = sum(run["bytes"][kind] for kind in ("payload_sent", "metadata_sent", "control_sent"))
    assert f"{sent / 1000:.0f} kB sent" in told[-2]


def test_quiet_says_nothing_but_errors() -> None:
    assert on_small("--quiet").output == ""
    bundled = deploy("topologies/churn16.yaml", *QUICK, "--quiet", "--dry-run")
    assert bundled.exit_code == 0
    assert bundled.stderr == ""
    wrong = on_small("--quiet", "--lr", "-1")
    assert wrong.exit_code == 3
    assert "lr: this must be at least 0" in wrong.stderr


def test_a_plan_runs_again_to_the_byte() -> None:
    assert on_small("--run-id", "first").exit_code == 0
    assert deploy("--plan", "results/first/plan.json", "--run-id", "second", "--workers", "0").exit_code == 0
    assert journals("first") == journals("second")
    assert len(journals("first")) == 5
    first, second = (json.loads(Path("results", run, "plan.json").read_text()) for run in ("first", "second"))
    assert {key for key in first if first[key] != second[key]} == {"run_id", "runtime_choice"}
    assert second["runtime_choice"] == {"how": "asked", "why": "the plan says so"}


def test_a_plan_of_real_processes_keeps_its_step_and_its_congestion_control_in_virtual_time() -> None:
    """But not its time scale: that was for the machine."""
    real = locally(plan_of(star(2), stop={"rounds": 1}, network={"congestion": "reno"}))
    before = create_run(Path("before"), "real")
    write_plan(before, real.model_copy(update={"ms_per_step": 43.0, "time_scale": 4.0}))
    result = deploy("--plan", str(before.plan), "--runtime", "sim", "--run-id", "again", "--workers", "0")
    assert result.exit_code == 0, result.stderr
    plan = json.loads(Path("results/again/plan.json").read_text())
    assert [plan[key] for key in ("runtime", "engine", "time_scale", "ms_per_step")] == ["sim", "flows", 1.0, 43.0]
    assert plan["experiment"]["network"]["congestion"] == "reno"


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_a_dry_run_starts_nothing(form: str) -> None:
    result = on_small("--dry-run", "--format", form)
    assert result.exit_code == 0
    assert not Path("results").exists()
    assert "preparing" not in result.stdout
    if form == "json":
        assert json.loads(result.stdout)["learners"] == 4
    elif form == "csv":
        assert result.stdout.splitlines()[0] == "what,value"


def test_runs_of_one_second_have_different_names(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Stopped:  # noqa: ARG003
            return cls(2026, 1, 2, 3, 4, 5)

    monkeypatch.setattr("testbed.runtimes.planning.datetime", Stopped)
    assert [on_small("--quiet").exit_code for _ in range(3)] == [0, 0, 0]
    name = "small-dpsgd-20260102-030405"
    assert sorted(each.name for each in Path("results").iterdir()) == [name, f"{name}-2", f"{name}-3"]


def test_names_of_runs_are_checked_before_anything_is_made() -> None:
    Path("results/taken/mine").mkdir(parents=True)
    taken = on_small("--run-id", "taken")
    assert taken.exit_code == 2
    assert "results/taken exists already" in taken.stderr
    assert "preparing" not in taken.stderr
    for bad in ("../x", "", ".hidden", "a b", "x" * 101):
        result = on_small("--run-id", bad)
        assert result.exit_code == 2
        assert "cannot be a run's name" in result.stderr
    assert [each.name for each in Path("results").iterdir()] == ["taken"]


def test_results_that_cannot_be_written() -> None:
    Path("file").write_text("")
    assert on_small("--results", "file").exit_code == 2
    inside = on_small("--results", "file/inside")
    assert inside.exit_code == 2
    assert "cannot make file/inside/" in inside.stderr
    assert "preparing" not in inside.stderr, "before anything is fetched or measured"


def test_a_folder_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("theirs").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: (Path(path).name, mode) != ("theirs", os.W_OK | os.X_OK))
    refused = on_small("--results", "theirs/results")
    assert (refused.exit_code, "preparing" in refused.stderr) == (2, False)
    assert "theirs: permission denied" in refused.stderr
    assert on_small("--results", "theirs", "--dry-run").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("none.yaml",), 2, "none.yaml: does not exist"),
        ((), 2, "which topology or experiment?"),
        (("topologies/wan17.xml",), 2, "did you mean `topologies/wan16.xml`?"),
        (("wan17",), 2, "wan17: does not exist, and no topology of that name is bundled"),
        (("wna16",), 2, "did you mean `wan16`?"),
        (("churn61.yaml",), 2, "did you mean `churn16.yaml`?"),
        (("nothing-like-it",), 2, "`testbed topologies` lists those that are bundled"),
        (("small.yaml", "--set", "training.lrr=1"), 3, "did you mean `lr`?"),
        (("small.yaml", "--algorithm", "dpsg"), 3, "did you mean `dpsgd`?"),
        (("small.yaml", "--model", "gnlenet"), 3, "did you mean `gn-lenet`?"),
        (("small.yaml", "--data", "digit"), 3, "did you mean `digits`?"),
        (("small.yaml", "--degree", "4"), 3, "write at most 3"),
        (("three.yaml", "--degree", "1"), 3, "3 × 1 is odd"),
        (("small.yaml", "--rounds", "-3"), 3, "rounds: this must be at least 1, not -3"),
        (("small.yaml", "--sharing", "topk", "--set", "sharing.fraction=2"), 3, "must be above 0 and at most 1"),
        (("small.yaml", "--set", "sharing.fraction=0.1"), 3, "`sharing` has no key `fraction`"),
        (("small.yaml", "--algorithm", "fedavg", "--set", "algorithm.server=b.0"), 3, "did you mean `a.0`?"),
        (("small.yaml", "--data", "digits", "--set", "data.partition=user"), 3, "cannot be divided by user"),
        (("small.yaml", "--data", "synthetic", "--set", "data.options={samples: 3}"), 3, ""),
        (("small.yaml", "--data", "digits", "--model", "mf"), 3, "mf learns ratings"),
        (("small.yaml", "--set", "compute.mode=measured"), 2, "virtual time cannot be measured"),
        (("small.yaml", "--algorithm", "none.py:A"), 3, "there is no file none.py"),
        (("empty.yaml",), 3, "no services are declared"),
        (("small.yaml", "--runtime", "swarm"), 2, "cannot run on `swarm` yet"),
        (("small.yaml", "--runtime", "simm"), 2, "did you mean `sim`?"),
        (("small.yaml", "--plan", "p.json"), 2, "a plan is complete"),
        (("--plan", "p.json"), 2, "p.json: does not exist"),
    ],
)
def test_what_is_wrong_is_told_before_anything_starts(arguments: tuple[str, ...], code: int, words: str) -> None:
    Path("empty.yaml").write_text("services: {}\nbridges: [r]\nlinks: []\n")
    Path("three.yaml").write_text(SMALL.replace("4", "3"))
    result = deploy(*arguments)
    assert result.exit_code == code, result.stderr
    assert words in result.stderr
    assert result.stdout == ""
    assert not Path("results").exists()


def test_an_experiment_s_mistakes_are_told_all_at_once() -> None:
    Path("e.yaml").write_text(
        "topology: small.yaml\noverlay: {kind: regulr, degre: 5}\ntraining: {lr: fast}\nstop: {time: 120}\n"
    )
    result = deploy("e.yaml")
    assert result.exit_code == 3
    for place in ("2:17", "2:25", "3:16", "4:14"):
        assert f"e.yaml:{place}: error: " in result.stderr


def test_an_experiment_of_another_folder_finds_its_files() -> None:
    Path("there").mkdir()
    Path("small.yaml").rename("there/net.yaml")
    Path("there/mine.py").write_text("from testbed.node.algorithms.dpsgd import DPSGD\nclass Mine(DPSGD):\n    pass\n")
    Path("there/e.yaml").write_text(
        'topology: net.yaml\ndata: digits\nalgorithm: {name: "mine.py:Mine"}\nstop: {rounds: 2}\n'
    )
    assert deploy("there/e.yaml", "--workers", "0", "--run-id", "r").exit_code == 0
    other = deploy("--plan", "results/r/plan.json", "--runtime", "local")
    assert (other.exit_code, "this plan is for sim" in other.stderr) == (2, True)
    assert deploy("--plan", "results/r/plan.json", "--workers", "0", "--run-id", "again").exit_code == 0
    assert journals("r") == journals("again")


def test_the_environment_may_choose_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESTBED_RUNTIME", "swarm")
    refused = on_small("--dry-run")
    assert refused.exit_code == 2
    assert "there is: docker, local, sim" in refused.stderr
    monkeypatch.setenv("TESTBED_RUNTIME", "sim")
    assert "runtime: sim (TESTBED_RUNTIME says so)" in on_small("--dry-run").stderr
    monkeypatch.setenv("TESTBED_RUNTIME", "swarm")
    assert on_small("--dry-run", "--runtime", "sim").exit_code == 0


@pytest.mark.parametrize("nodes", [1, 2])
def test_the_smallest_topologies(nodes: int) -> None:
    Path("small.yaml").write_text(SMALL.replace("4", str(nodes)))
    result = on_small()
    assert result.exit_code == 0
    assert f"finished: {nodes} node{'s' if nodes > 1 else ''}, 3 rounds" in result.stderr


CRASHES = SMALL + "events:\n  - {at: 1s, node: a.1, do: crash}\n"
SLOW = ("--set", "compute.ms_per_step=100")


def test_crashes_while_others_wait_are_warned_of_and_end_the_run() -> None:
    Path("small.yaml").write_text(CRASHES)
    result = on_small(*SLOW, "--rounds", "9", "--set", "missing.then=wait")
    assert result.exit_code == 6
    assert "small.yaml:7:5: warning: from 1s on nodes crash" in result.stderr
    assert "node a.0 and 2 others failed: waits for a.1 in round" in result.stderr
    assert "`missing.then: skip` goes on without" in result.stderr


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("--set", "missing.then=skip", "--set", "missing.after=1s"),
        ("--time", "1s", "--set", "missing.then=wait"),
        ("--set", "stop.time=900ms", "--set", "missing.then=wait"),
    ],
)
def test_no_warning_where_nobody_waits(settings: tuple[str, ...]) -> None:
    Path("small.yaml").write_text(CRASHES)
    result = on_small(*SLOW, *settings)
    assert result.exit_code == 0
    assert "waits-for-ever" not in result.stderr


@pytest.mark.parametrize(("waits", "then"), [("False", "skip"), ("True", "wait"), ("None", "wait")])
def test_own_code_that_says_that_it_waits_for_none_skips_the_dead(waits: str, then: str) -> None:
    Path("mine.py").write_text(
        "from testbed.node.algorithm import Algorithm\n\n\nclass Mine(Algorithm):\n"
        f"    waits = {waits}\n\n    async def run(self, node):\n        pass\n"
    )
    assert on_small("--algorithm", "mine.py:Mine", "--run-id", "one").exit_code == 0
    plan = json.loads(Path("results/one/plan.json").read_text())
    assert plan["experiment"]["missing"]["then"] == then


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        (("outbox.policy=latest",), True),
        (("outbox.policy=fifo",), False),
        (("outbox.policy=flush", "missing.then=skip"), False),
        (("outbox.policy=flush", "algorithm.name=swift-random"), False),
    ],
)
def test_an_outbox_that_may_drop_what_others_wait_for_is_warned_of(settings: tuple[str, ...], *, warned: bool) -> None:
    result = on_small("--dry-run", *(word for each in settings for word in ("--set", each)))
    assert result.exit_code == 0
    assert ("warning: dpsgd waits for messages that `outbox.policy: latest` may drop" in result.stderr) is warned


def test_results_behind_a_link_that_leads_nowhere() -> None:
    Path("results").symlink_to("gone/away")
    refused = on_small()
    assert (refused.exit_code, "preparing" in refused.stderr) == (2, False)
    assert "is a link to gone/away, which is not there" in refused.stderr


def test_results_on_a_file_system_that_is_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    monkeypatch.setattr("testbed.runtimes.run_place._is_read_only", lambda _folder: True)
    assert "its file system is read-only" in on_small().stderr


def test_a_working_directory_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for words in (("topologies",), ("deploy", "topologies/lan4.xml"), ("collect", "results")):
        result = CliRunner().invoke(main, [*words])
        assert (result.exit_code, "the working directory has been removed" in result.stderr) == (2, True)
