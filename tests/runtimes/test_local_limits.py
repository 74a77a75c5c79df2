"""Limits of a learner of `local`: one that exceeds them ends with a message, and the machine is not affected."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from testbed.isolation.sandbox_check import sandbox_support
from testbed.limits import LOG_BYTES, PROCESSES, counts_processes_by_namespace
from testbed.runtimes.processes import watches
from tests.runtimes.local_runs import run
from tests.runtimes.sim_runs import plan_of, star

pytestmark = pytest.mark.processes

GREEDY = """
import mmap
import os
import time
import numpy as np
import torch
from testbed.node.algorithms.dpsgd import DPSGD


class Mine(DPSGD):
    async def run(self, node):
        if node.rank == 1:
            {body}
        await super().run(node)
"""
TAKES = {
    "numpy": "np.ones(10_000_000_000 // 8)",
    "torch": "torch.ones(10_000_000_000 // 4)",
    "pieces": "[bytes(1 << 20) for _ in range(10_000)]",
    "shared": "mmap.mmap(-1, 10_000_000_000)",
}


def failure_of(body: str, folder: Path) -> str:
    """What the run says of its second node; the first one has done nothing wrong."""
    source = folder / "mine.py"
    source.write_text(GREEDY.format(body=body))
    _, outcome = run(plan_of(star(2), algorithm={"name": f"{source}:Mine"}, stop={"rounds": 2}), folder, "none")
    (failed,) = outcome.failures
    assert failed.node == "node.1"
    return str(failed.failure.message)


@pytest.mark.parametrize("how", TAKES)
def test_memory_is_denied_where_it_is_asked_for(how: str, tmp_path: Path) -> None:
    said = failure_of(TAKES[how], tmp_path)
    assert "of memory here; `memory` of its service gives it more" in said, said


@pytest.mark.skipif(
    sandbox_support().denied is not None or not counts_processes_by_namespace(), reason="needs namespaces"
)
def test_a_fork_bomb_ends_with_its_node(tmp_path: Path) -> None:
    assert PROCESSES < 500
    body = "for _ in range(500):\n                os.fork() or time.sleep(1234)"
    said = failure_of(body, tmp_path)
    assert "Resource temporarily unavailable" in said
    assert f"a node may have {PROCESSES} processes and threads" in said
    assert not [pid for pid in os.listdir("/proc") if pid.isdecimal() and _is_of(tmp_path, pid)]


def _is_of(folder: Path, pid: str) -> bool:
    try:
        return os.fsencode(folder) in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


HOARDS = """def hoard():
                kept = bytearray(os.urandom(1 << 20)) * 100
                time.sleep(1234)
            for _ in range(8):
                os.fork() or hoard()
            time.sleep(60)"""


def test_many_processes_together_may_not_have_more_than_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "_EXCESS_EVERY_S", 0.1)
    said = failure_of(HOARDS, tmp_path)
    assert re.search("its [0-9]+ processes have [0-9]+ MiB of memory; a node may have 512 MiB", said), said


def test_a_log_does_not_grow_for_ever(tmp_path: Path) -> None:
    said = failure_of("while True:\n                print('x' * 10_000)", tmp_path)
    assert f"it has printed more than {LOG_BYTES >> 20} MiB" in said
    log = tmp_path / "run" / "nodes" / "node.1" / "log.txt"
    assert log.stat().st_size <= 1 << 30


def test_no_file_grows_for_ever(tmp_path: Path) -> None:
    big = tmp_path / "run" / "nodes" / "node.1" / "big"
    assert "File too large" in failure_of(f"open('{big}', 'wb').truncate(1 << 40)", tmp_path)
