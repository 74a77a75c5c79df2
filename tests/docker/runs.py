"""Runs of containers that tests start, through the command that users type."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from testbed.cli.main import main
from testbed.image.engine_client import connected
from testbed.runtimes.docker.containers import FOLDER_LABEL

TOPOLOGY = """
services:
  a: {{replicas: {nodes}}}
bridges: [r]
links: [{{from: a, to: r, latency: 5ms, rate: 20Mbps}}]
{events}
"""
QUICK = ("--data", "digits", "--set", "compute.ms_per_step=20", "--set", "evaluation.every=2", "--force")
"""Steps are as short on a busy machine, too: that a run may be overloaded there is no reason to refuse it."""
PATIENCE_S = 150.0
IN_PROCESS = frozenset({"collect", "destroy", "fault", "link", "status"})


def words(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "testbed", *arguments]


def deploy_words(folder: Path, image: str, *more: str, nodes: int = 3, rounds: int = 4, events: str = "") -> list[str]:
    (folder / "small.yaml").write_text(TOPOLOGY.format(nodes=nodes, events=f"events:\n{events}" if events else ""))
    chosen = ("--runtime", "docker", "--image", image, "--rounds", str(rounds), "--run-id", "r")
    return words("deploy", "small.yaml", *QUICK, *chosen, *more)


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """In this process what needs none of its own: starting Python takes longer than most of these commands."""
    if arguments[0] not in IN_PROCESS:
        return _ran(folder, words(*arguments))
    with chdir(folder):
        done = CliRunner().invoke(main, list(arguments))
    assert isinstance(done.exception, SystemExit | None), done.exception
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def deploy(folder: Path, image: str, *more: str, **how: Any) -> subprocess.CompletedProcess[str]:
    return _ran(folder, deploy_words(folder, image, *more, **how))


def _ran(folder: Path, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments, cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE_S, env=environment()
    )


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


@contextmanager
def deploying(folder: Path, image: str, *more: str, **how: Any) -> Iterator[subprocess.Popen[str]]:
    """A live run; afterwards no process leads it, whatever happens within."""
    with subprocess.Popen(
        deploy_words(folder, image, *more, rounds=5000, **how),
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def containers(folder: Path) -> list[dict[str, Any]]:
    """Of the run `r`, dead ones too."""
    label = f"{FOLDER_LABEL}={(folder / 'results' / 'r').resolve()}"
    with connected() as engine:
        return list(engine.api.containers(all=True, filters={"label": label}))


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results" / "r" / "summary.json").read_text())
    return found


def until(is_so: Callable[[], object], within_s: float = PATIENCE_S) -> None:
    until_s = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < until_s, "it never came to that"
        time.sleep(0.1)
