"""A command that is killed at a chosen moment of a run's start or end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.docker.runs import PATIENCE_S, deploy_words, environment

_DYING = """
import os, signal, sys
from testbed.cli.main import main
from testbed.runtimes.docker import start
from testbed.runtimes.docker.container_set import ContainerSet

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

begin = ContainerSet.start
{moment}
sys.argv = ["testbed", *sys.argv[1:]]
main()
"""
MAKING = "ContainerSet.is_running = die"
"""There are volumes, and what gives them away."""
MADE = "start.remove = die"
CREATING = "ContainerSet.start = lambda all_, some, done=print: begin(all_, some, die if len(some) > 1 else done)"
"""Some containers are there, others are not, or not yet started."""
CREATED = "ContainerSet.pid = die"
"""Control and the learners run, and wait for one another."""
ENDED = "ContainerSet.all_ended = die"


def deploy_dying(folder: Path, image: str, moment: str, *more: str) -> None:
    words = deploy_words(folder, image, *more, nodes=2, rounds=2)
    words[:3] = [sys.executable, "-c", _DYING.format(moment=moment)]
    ended = subprocess.run(
        words, cwd=folder, env=environment(), capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
