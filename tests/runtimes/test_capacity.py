"""Free cores, from two readings of the kernel's counters."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from testbed import cores
from testbed.runtimes import capacity, machine_speed
from testbed.runtimes.capacity import free_cores
from tests.runtimes.sim_runs import plan_of, star

BEFORE = [100, 0, 100, 1000, 0, 0, 0, 0, 0, 0]


def later(user: int = 0, idle: int = 0, waiting: int = 0) -> list[int]:
    return [BEFORE[0] + user, 0, BEFORE[2], BEFORE[3] + idle, waiting, 0, 0, 0, 0, 0]


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the kernel counts of three cores, of which this process may use two."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(cores, "_quotas", lambda: iter(()))
    monkeypatch.setattr(capacity, "_KERNEL_COUNTERS", tmp_path / "stat")
    return tmp_path / "stat"


def write(path: Path, *times: list[int]) -> None:
    lines = [f"cpu{number} {' '.join(map(str, each))}" for number, each in enumerate(times)]
    path.write_text("\n".join(["cpu  1 2 3 4 5 6 7 8 9 10", *lines, "intr 5 6", "ctxt 7"]) + "\n")


@pytest.mark.parametrize(
    ("first", "second", "free"),
    [
        (later(idle=20), later(idle=20), 2.0),
        (later(user=20), later(idle=20), 1.0),
        (later(user=20), later(waiting=20), 1.0),
        (later(user=10, idle=10), later(idle=20), 1.5),
        (later(user=20), later(user=20), 1.0),
        (later(), later(), 2.0),
    ],
    ids=["no others", "one is busy", "disks are no work", "half of one", "never less than one", "nothing counted"],
)
def test_what_others_leave(
    first: list[int], second: list[int], free: float, counted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(counted, BEFORE, BEFORE, BEFORE)
    monkeypatch.setattr(
        "testbed.runtimes.capacity.time.sleep", lambda _: write(counted, first, second, later(user=1000))
    )
    assert free_cores() == free


@pytest.mark.slow
def test_a_step_is_longer_where_others_use_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training has the lowest priority: what is measured at a higher one would be too short."""
    experiment, found = plan_of(star(4)).experiment, []
    for free in (1000.0, 1e-4):
        monkeypatch.setattr(machine_speed, "free_cores", lambda free=free: free)
        found.append(machine_speed.step_times(experiment, 4, 0).least)
    assert found[1] > 1000 * found[0]
