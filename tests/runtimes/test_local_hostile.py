"""The hostile learners that containers are tried with, as processes of this machine: all that they try is denied."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from testbed.isolation.sandbox_check import sandbox_support
from testbed.limits import PROCESSES, counts_processes_by_namespace
from tests.docker.hostile.escapes import DENIED
from tests.docker.hostile_runs import finished, notes, write_experiment
from tests.docker.runs import words
from tests.docker.test_security import Listeners, own_addresses
from tests.runtimes.local_runs import needs_network

pytestmark = [
    needs_network,
    pytest.mark.skipif(sandbox_support().denied is not None, reason=f"{sandbox_support().denied}"),
]

ROUNDS = 3
NODES = ("good", "fine", "escapes", "kills", "gorges")


@dataclass
class Crowd:
    run: Path
    ended: subprocess.CompletedProcess[str]
    callers: dict[str, bool]


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    folder = tmp_path_factory.mktemp("crowd")
    with Listeners() as host:
        told = {"port": host.port, "hosts": ",".join(own_addresses()), "abstract": host.name, "secret": "/etc/shadow"}
        file = write_experiment(folder, NODES, ROUNDS, **told)
        wanted = ("--runtime", "local", "--results", "results", "--run-id", "crowd", "--force")
        try:
            yield Crowd(
                folder / "results" / "crowd", finished(folder, words("deploy", str(file), *wanted)), host.callers()
            )
        finally:
            finished(folder, words("destroy", "crowd"))


def test_there_is_no_way_out(crowd: Crowd) -> None:
    tried = notes(crowd.run, "escapes.0", "escape")
    done = {each.partition(": ")[0] for each in tried if f": {DENIED}: " not in each}
    assert {name for name in done if "process 1" not in name} == set(), "process 1 is the learner itself here"
    assert len(tried) > 55
    assert crowd.callers == {"tcp": False, "udp": False, "abstract": False}


def test_what_it_gorges_on_ends_it_and_nobody_else(crowd: Crowd) -> None:
    summary = json.loads((crowd.run / "summary.json").read_text())
    assert set(summary["failed"]) == {"gorges.0"}, crowd.ended.stderr
    assert "of memory here; `memory` of its service gives it more" in crowd.ended.stderr


@pytest.mark.skipif(not counts_processes_by_namespace(), reason="this kernel counts all of the user's processes")
def test_processes_without_end_come_to_one(crowd: Crowd) -> None:
    (told,) = notes(crowd.run, "kills.0", "bomb")
    count, _, why = told.partition(": ")
    assert 20 < int(count) < PROCESSES
    assert why == "Resource temporarily unavailable"
