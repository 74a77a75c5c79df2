"""The contract, kept by each runtime, and what only one of them has."""

from __future__ import annotations

import csv
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed.rundir import RunDirectory
from tests.contract.contract import PATIENT, RuntimeContract, told
from tests.contract.runtimes import InVirtualTime, OnThisMachine
from tests.runtimes.local_runs import needs_network
from tests.runtimes.scratch_run import PATIENCE_S, until
from tests.runtimes.sim_runs import plan_of, star

UNSHAPED = {
    "link show RUN node.0 hub": "has no emulated network",
    "link set RUN node.0 hub --latency 7ms": "nothing in it can be changed or cut",
    "link reset RUN": "nothing in it can be changed or cut",
    "capture RUN node.0 --for 100ms": "has no emulated network",
    "fault crash RUN node.0": "no node can be cut off in it",
    "fault disconnect RUN node.0": "no node can be cut off in it",
    "fault reconnect RUN node.0": "no node can be cut off in it",
    "fault partition RUN node.0 / node.1": "nothing in it can be changed or cut",
    "fault flap RUN node.0 hub --for 100ms": "nothing in it can be changed or cut",
    "exec RUN node.0 -- true": "has no network of its own",
}
"""Without an engine there is nothing that this could be done to."""
AS_EVER = (
    "status RUN",
    "logs RUN",
    "fault pause RUN node.1",
    "fault resume RUN node.1",
    "fault kill RUN node.1",
    "fault join RUN node.1",
    "fault leave RUN node.2",
)


class TestVirtualTime(RuntimeContract):
    runtime = InVirtualTime()

    def try_what_only_it_has(self, long: RunDirectory) -> None:
        """No command can end it, but `destroy` says who can."""
        done = told("destroy RUN", long)
        assert (done.exit_code, done.stdout) == (0, "")
        assert "long: a run in virtual time" in done.stderr
        assert "Ctrl-C" in done.stderr
        before = long.node("node.0").journal.stat().st_size
        until(lambda: long.node("node.0").journal.stat().st_size > before)


@contextmanager
def going_on(*words: str) -> Iterator[subprocess.Popen[str]]:
    """A command that does not end by itself."""
    with subprocess.Popen(
        [sys.executable, "-m", "testbed", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def interrupted(process: subprocess.Popen[str]) -> str:
    """What it says when Ctrl-C ends it."""
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    return said


@needs_network
class TestThisMachine(RuntimeContract):
    runtime = OnThisMachine()

    def try_what_only_it_has(self, long: RunDirectory) -> None:
        """Watches the run until a condition holds."""
        with going_on("status", str(long.path), "--watch", "--format", "csv") as process:
            assert process.stdout is not None
            head, first, again, later = (next(csv.reader([process.stdout.readline()])) for _ in range(4))
            assert again == head
            assert {first[head.index("state")], later[head.index("state")]} == {"training"}
            assert float(first[head.index("t")]) < float(later[head.index("t")])
            interrupted(process)
        with going_on("logs", str(long.path), "node.0", "-f") as process, long.node("node.0").log.open("a") as log:
            assert process.stdout is not None
            for word in ("one", "another"):
                print(word, file=log, flush=True)
                assert process.stdout.readline() == f"{word}\n"
            interrupted(process)


@pytest.mark.processes
def test_without_an_engine_what_needs_a_network_is_refused(tmp_path: Path) -> None:
    """Without a network to change: plain loopback has no links."""
    plan = plan_of(star(4), stop={"rounds": 10**6}, evaluation={"every": 1000, "samples": 20}, missing=PATIENT)
    with OnThisMachine("none").going_on(plan, tmp_path) as long:
        for words, why in UNSHAPED.items():
            done = told(words, long)
            assert (done.exit_code, why in done.stderr) == (4, True), (words, done.stderr)
        for words in AS_EVER:
            done = told(words, long)
            assert done.exit_code == 0, (words, done.stderr)
