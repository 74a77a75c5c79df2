"""As many train at once as there are cores that they may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from testbed import cores
from testbed.cores import usable_cores


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Control groups of a machine of eight cores, without processes."""
    monkeypatch.setattr(cores, "_GROUPS", tmp_path)
    monkeypatch.setattr(cores, "_MINE", tmp_path / "mine")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_those_that_this_process_may_run_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5})
    assert usable_cores() == 1


@pytest.mark.parametrize(
    ("limit", "usable"),
    [
        ("max 100000", 8),
        ("300000 100000", 3),
        ("250000 100000", 2),
        ("50000 100000", 1),
        ("9900000 100000", 8),
        ("", 8),
    ],
)
def test_the_time_that_a_group_has(limit: str, usable: int, groups: Path) -> None:
    write(groups / "mine", "0::/user/mine\n")
    write(groups / "user" / "mine" / "cpu.max", limit + "\n")
    assert usable_cores() == usable


def test_the_smallest_limit_of_all_groups_around_counts(groups: Path) -> None:
    write(groups / "mine", "0::/user/mine\n")
    write(groups / "user" / "mine" / "cpu.max", "700000 100000\n")
    write(groups / "user" / "cpu.max", "400000 100000\n")
    assert usable_cores() == 4
    write(groups / "cpu.max", "200000 100000\n")  # in a container: there it is the container's own
    assert usable_cores() == 2
    write(groups.parent / "cpu.max", "100000 100000\n")
    assert usable_cores() == 2


@pytest.mark.parametrize(("quota", "usable"), [("-1", 8), ("200000", 2)])
def test_groups_of_the_older_kind(quota: str, usable: int, groups: Path) -> None:
    write(groups / "mine", "4:memory:/m\n3:cpu,cpuacct:/docker/1\n1:name=systemd:/s\n")
    folder = groups / "cpu" / "docker" / "1"
    write(folder / "cpu.cfs_quota_us", quota + "\n")
    write(folder / "cpu.cfs_period_us", "100000\n")
    assert usable_cores() == usable


def test_where_nobody_can_tell(groups: Path) -> None:
    assert usable_cores() == 8
    write(groups / "mine", "0::/nowhere\n")
    assert usable_cores() == 8


@pytest.mark.usefixtures("groups")
def test_a_system_without_a_choice_of_cores_has_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    assert usable_cores() == 5


def test_nothing_else_asks_how_many_there_are() -> None:
    """Counting the machine's cores would let more nodes train at once than can run."""
    package = Path(cores.__file__).parent
    asking = [path for path in package.rglob("*.py") if "cpu_count" in path.read_text()]
    assert asking == [Path(cores.__file__)], "for systems without a choice of cores only"
    affinity = [path for path in package.rglob("*.py") if "sched_getaffinity" in path.read_text()]
    assert affinity == [Path(cores.__file__)]
