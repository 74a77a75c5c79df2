"""`chaos`: random faults of all kinds, drawn from seeds, in runs of real processes."""

from __future__ import annotations

from pathlib import Path

from soaks.soak import Case, Soak, Verdict
from soaks.tested import tested


def _local(folder: Path, number: int) -> Verdict:  # noqa: ARG001
    """One seed for each try; those of CI come first."""
    return tested(["tests/runtimes/test_chaos.py"], {"TESTBED_TEST_CHAOS": f"{number + 1},1"})


def _docker(folder: Path, number: int) -> Verdict:  # noqa: ARG001
    return tested(["tests/docker/test_docker_chaos.py"], {"TESTBED_TEST_DOCKER_CHAOS": f"{number + 1},1"})


SOAK = Soak(
    name="chaos",
    about="kills, stops, faults, signals and removed folders, drawn from seeds: a run ends, and nothing of it stays",
    cases=(Case("local", _local), Case("docker", _docker)),
    tries=lambda _: 200,
    wanted=lambda tries, _: tries,
)
