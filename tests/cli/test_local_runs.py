"""Real processes as users meet them: `deploy --runtime local` and the commands about runs that go on."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from testbed.rundir import RunDirectory
from testbed.runtimes.tracking.leftovers import destroy, is_alive
from testbed.runtimes.tracking.process_records import RunRecord, read_record
from tests.cli.in_process import command
from tests.runtimes.local_runs import needs_network

pytestmark = needs_network

SMALL = """
services:
  a: {replicas: 4}
bridges: [r]
links: [{from: a, to: r, latency: 5ms, rate: 20Mbps}]
"""
QUICK = ("small.yaml", "--runtime", "local", "--data", "digits", "--set", "compute.ms_per_step=20")
_PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TESTBED_RUNTIME", raising=False)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    Path("small.yaml").write_text(SMALL)
    yield
    if Path("results").is_dir():
        for path in Path("results").iterdir():
            destroy(RunDirectory(path))


def until(holds: Callable[[], bool], process: subprocess.Popen[str] | None = None) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not holds():
        if process is not None and process.poll() is not None:
            pytest.fail(f"ended with {process.returncode}: {process.stderr.read() if process.stderr else ''}")
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.01)


LONG = RunDirectory(Path("results/long"))


def rounds(node: str) -> int:
    journal = LONG.node(node).journal
    return journal.read_bytes().count(b'"type":"round"') if journal.exists() else 0


def trains() -> bool:
    return all(rounds(f"a.{number}") >= 2 for number in range(4))


def assert_nothing_is_left(record: RunRecord) -> None:
    until(lambda: not any(is_alive(each) for each in record.processes))
    assert not Path(record.sockets).exists()
    assert read_record(LONG) is None


@pytest.mark.parametrize("engine", ["fabric", "none"])
def test_a_run_of_real_processes_ends_with_its_results(engine: str) -> None:
    result = command("deploy", *QUICK, "--rounds", "3", "--run-id", "one", "--engine", engine)
    assert result.exit_code in (0, 7), result.stderr  # a busy machine may not keep up
    assert ("OVERLOADED" in result.stderr) is (result.exit_code == 7)
    assert ("the network was not shaped" in result.stderr) is (engine == "none")
    summary = json.loads(Path("results/one/summary.json").read_text())
    assert (summary["reason"], summary["finished"], summary["failed"]) == ("finished", 4, [])
    assert summary["health"] == ("overloaded" if summary["why"] else "valid")
    assert (result.exit_code == 7) is (summary["health"] == "overloaded")
    assert summary["computing"]["works"] == 12
    (run,) = json.loads(command("collect", "results/one", "--format", "json").stdout)["runs"]
    assert (run["health"], run["engine"], run["rounds"]) == (summary["health"], engine, 3)
    assert not Path("results/one/runtime/processes.json").exists()


def test_a_run_that_goes_on_by_itself() -> None:
    result = command("deploy", *QUICK, "--rounds", "100000", "--run-id", "long", "--detach")
    assert result.exit_code == 0, result.stderr
    assert "the run goes on" in result.stderr
    record = read_record(LONG)
    assert record is not None
    until(trains)
    (row,) = json.loads(command("status", "long", "--format", "json").stdout)
    assert (row["state"], row["nodes"]) == ("training", 4)
    assert row["rounds"] >= 1

    assert command("fault", "crash", "long", "a.1").exit_code == 0
    until(lambda: not any(is_alive(each) for each in record.processes if each.name == "node 1"))
    assert command("fault", "join", "long", "a.1").exit_code == 0
    before = rounds("a.1")
    until(lambda: rounds("a.1") > before)
    assert command("fault", "pause", "long", "a.2", "--for", "0.2s").exit_code == 0
    happened = [msgspec.json.decode(line) for line in LONG.events.read_bytes().splitlines()]
    found = [(each["what"], each["node"]) for each in happened if each["type"] == "event" and each["planned_t"]]
    assert found == [("crash", "a.1"), ("join", "a.1"), ("pause", "a.2"), ("resume", "a.2")]
    assert all(0 <= each["t"] - each["planned_t"] < 1 for each in happened if each.get("planned_t"))

    assert command("fault", "pause", "long", "b").exit_code == 2
    assert command("logs", "long", "a.0").exit_code == 0
    words = [sys.executable, "-m", "testbed", "exec", "long", "a.3", "--", "cat", "/proc/net/fib_trie"]
    assert "198.18.0.4" in subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "198.18.0.4" not in Path("/proc/net/fib_trie").read_text()

    assert command("destroy", "--all").exit_code == 0
    assert_nothing_is_left(record)
    (row,) = json.loads(command("status", "long", "--format", "json").stdout)
    assert row["state"] == "interrupted"
    assert command("fault", "pause", "long", "a.1").exit_code == 2


def test_what_the_machine_denies_is_told_and_nothing_trains() -> None:
    """A congestion control that no kernel has: the route cannot be made, so there is no network."""
    result = command("deploy", *QUICK, "--run-id", "long", "--set", "network.congestion=reno2")
    assert result.exit_code in (3, 4)
    assert not list(Path(".").glob("results/*/nodes/*/journal.jsonl"))


def test_doctor_says_what_can_run() -> None:
    result = command("doctor", "--format", "json")
    assert result.exit_code == 0
    checks = {each["check"]: each for each in json.loads(result.stdout)}
    assert checks["emulated network"]["ok"] is True
    assert {"/dev/net/tun", "cores", "memory", "open files", "idle priority", "clock"} <= set(checks)
