"""Whatever happens to containers, their run ends, with a code that means something, and nothing of it stays.

Injuries are drawn from a seed: CI has one of them, `scripts/soak chaos` has many.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from docker.errors import APIError

from testbed.image.engine_client import connected
from testbed.runtimes.docker.containers import FOLDER_LABEL, PART_LABEL
from tests.docker.runs import command, containers, deploy_words, environment, until

FIRST, COUNT = (int(each) for each in os.environ.get("TESTBED_TEST_DOCKER_CHAOS", "1,1").split(","))
LONGEST_S = 200.0
CODES = {0, 5, 6, 7, 130, -signal.SIGKILL, -signal.SIGINT, -signal.SIGTERM}
"""The last two if the signal comes after the end of the run."""
NODES = ("a.0", "a.1", "a.2")
Injury = Callable[[Path, Random, "subprocess.Popen[str]"], None]


def _on_engine(action: str, *parts: str) -> Injury:
    def injure(folder: Path, random: Random, _: subprocess.Popen[str]) -> None:
        there = [each["Id"] for each in containers(folder) if each["Labels"].get(PART_LABEL) in parts]
        if not there:
            return
        with connected() as engine, suppress(APIError):
            victim = random.choice(there)
            if action == "kill":
                engine.api.kill(victim)
            elif action == "remove":
                engine.api.remove_container(victim, force=True)
            elif action == "stop":
                engine.api.stop(victim, timeout=5)
            else:
                engine.api.pause(victim)
                time.sleep(random.uniform(0.1, 1.0))
                engine.api.unpause(victim)

    return injure


def _commanded(*words: str) -> Injury:
    def injure(folder: Path, random: Random, _: subprocess.Popen[str]) -> None:
        node, other = random.sample(NODES, 2)
        done = command(folder, *(each.format(node=node, other=other) for each in words))
        assert "Traceback" not in done.stderr
        assert "Usage:" not in done.stderr, "this test does not know the command"

    return injure


def _to_the_command(number: signal.Signals) -> Injury:
    return lambda _folder, _random, process: process.send_signal(number)


def _removed(folder: Path, _random: Random, _process: subprocess.Popen[str]) -> None:
    run = folder / "results" / "r"
    while run.exists():
        shutil.rmtree(run, ignore_errors=True)


INJURIES: tuple[Injury, ...] = (
    *(_on_engine("kill", part) for part in ("learner", "fabric", "control")),
    *(_on_engine("remove", part) for part in ("learner", "fabric", "control")),
    _on_engine("stop", "learner"),
    _on_engine("pause", "learner", "fabric"),
    _commanded("fault", "crash", "r", "{node}", "--for", "300ms"),
    _commanded("fault", "pause", "r", "{node}", "--for", "400ms"),
    _commanded("fault", "partition", "r", "{node}", "/", "{other}", "--for", "500ms"),
    _commanded("link", "set", "r", "{node}", "r", "--loss", "20%"),
    _commanded("status", "r"),
    _commanded("destroy", "r"),
    _to_the_command(signal.SIGINT),
    _to_the_command(signal.SIGTERM),
    _to_the_command(signal.SIGKILL),
    _removed,
)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_whatever_happens_the_run_ends_and_nothing_of_it_stays(seed: int, tmp_path: Path, image: str) -> None:
    random = Random(seed)  # noqa: S311
    arguments = deploy_words(tmp_path, image, rounds=60)
    with subprocess.Popen(arguments, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            if random.random() < 0.8:  # else while it starts
                until(lambda: process.poll() is not None or _trains(tmp_path))
            for _ in range(random.randint(1, 3)):
                time.sleep(random.uniform(0.0, 1.5))
                if process.poll() is not None:
                    break
                random.choice(INJURIES)(tmp_path, random, process)
            try:
                _, said = process.communicate(timeout=LONGEST_S)
            except subprocess.TimeoutExpired:
                pytest.fail(f"it hangs: {command(tmp_path, 'status', 'r').stdout}")
        finally:
            process.kill()
            destroyed = command(tmp_path, "destroy", "r") if (tmp_path / "results" / "r").exists() else None
    assert process.returncode in CODES, said
    assert "Traceback" not in said, said
    if destroyed is not None:
        assert destroyed.returncode in (0, 2), destroyed.stderr
        collected = command(tmp_path, "collect", "r")
        assert collected.returncode in (0, 2, 3, 8), collected.stderr
        run = tmp_path / "results" / "r"
        assert not [path for path in run.rglob("*") if path.is_socket()]
        for journal in (*run.glob("nodes/*/journal.jsonl"), run / "events.jsonl"):
            for line in journal.read_bytes().split(b"\n")[:-1] if journal.is_file() else ():
                json.loads(line)
    elif process.returncode == -signal.SIGKILL:
        _remove_by_label(tmp_path)  # `destroy` cannot: the directory, by which it finds containers, is gone, too
    until(lambda: not containers(tmp_path))


def _trains(folder: Path) -> bool:
    journals = [folder / "results" / "r" / "nodes" / name / "journal.jsonl" for name in NODES]
    return all(each.exists() and b'"type":"round"' in each.read_bytes() for each in journals)


def _remove_by_label(folder: Path) -> None:
    label = f"{FOLDER_LABEL}={folder / 'results' / 'r'}"
    with connected() as engine:
        for each in engine.api.containers(all=True, filters={"label": label}):
            engine.api.remove_container(each["Id"], force=True)
