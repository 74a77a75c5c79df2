"""Whatever happens to a run, it ends in time, with a code that means something, and nothing of it stays.

Injuries are drawn from a seed: CI has a few of them, `scripts/soak chaos` has hundreds.
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
from random import Random

import pytest

from tests.runtimes.local_runs import needs_network
from tests.runtimes.scratch_run import NODES, ScratchRun

pytestmark = needs_network

FIRST, COUNT = (int(each) for each in os.environ.get("TESTBED_TEST_CHAOS", "1,5").split(","))
LONGEST_S = 150.0
"""From the last injury to the end: documented timeouts are of seconds here, and of a minute for those that hang."""
CODES = {0, 5, 6, 7, 130, -signal.SIGKILL}
"""Of the command: done, not started, a node or a process failed, overloaded, interrupted, and killed itself."""
COLLECTED = {0, 2, 3, 8}

Injury = Callable[[ScratchRun, Random, "subprocess.Popen[str]"], None]


def _of_record(scratch: ScratchRun, random: Random, names: tuple[str, ...]) -> int | None:
    record = scratch.record()
    there = [each for each in (record.processes if record else ()) if each.name.startswith(names)]
    return random.choice(there).pid if there else None


def _signalled(number: signal.Signals, *names: str) -> Injury:
    def injure(scratch: ScratchRun, random: Random, _: subprocess.Popen[str]) -> None:
        pid = _of_record(scratch, random, names)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    return injure


def _stopped(scratch: ScratchRun, random: Random, _: subprocess.Popen[str]) -> None:
    """For a while."""
    pid = _of_record(scratch, random, ("node", "fabric"))
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(random.uniform(0.1, 1.0))
            os.kill(pid, signal.SIGCONT)


def _commanded(*words: str) -> Injury:
    def injure(scratch: ScratchRun, random: Random, _: subprocess.Popen[str]) -> None:
        node, other = random.sample(NODES, 2)
        told = [each.format(node=node, other=other) for each in words]
        result = scratch.testbed(*told)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert "Usage:" not in result.output, "this test does not know the command"

    return injure


def _to_the_command(number: signal.Signals) -> Injury:
    def injure(scratch: ScratchRun, _random: Random, process: subprocess.Popen[str]) -> None:
        if scratch.record() is not None or number == signal.SIGKILL:  # before that it is any program
            process.send_signal(number)

    return injure


def _removed(scratch: ScratchRun, _random: Random, _process: subprocess.Popen[str]) -> None:
    while scratch.run.path.exists():
        shutil.rmtree(scratch.run.path, ignore_errors=True)


def _planted(scratch: ScratchRun, random: Random, _: subprocess.Popen[str]) -> None:
    """A pipe where a file of the run's would be."""
    with suppress(OSError):
        os.mkfifo(scratch.run.path / random.choice(("summary.json", "nodes/none", "runtime/zygote.log")))


INJURIES: tuple[Injury, ...] = (
    *(_signalled(signal.SIGKILL, name) for name in ("node", "zygote", "fabric", "control")),
    _signalled(signal.SIGTERM, "node"),
    _stopped,
    _commanded("fault", "crash", "long", "{node}", "--for", "300ms"),
    _commanded("fault", "kill", "long", "{node}"),
    _commanded("fault", "disconnect", "long", "{node}", "--for", "500ms"),
    _commanded("fault", "pause", "long", "{node}", "--for", "400ms"),
    _commanded("fault", "partition", "long", "{node}", "/", "{other}", "--for", "500ms"),
    _commanded("fault", "flap", "long", "{node}", "hub", "--for", "50ms", "--every", "200ms", "--times", "3"),
    _commanded("link", "set", "long", "{node}", "hub", "--loss", "20%"),
    _commanded("status", "long"),
    _commanded("destroy", "long"),
    _to_the_command(signal.SIGINT),
    _to_the_command(signal.SIGTERM),
    _to_the_command(signal.SIGKILL),
    _removed,
    _planted,
)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_whatever_happens_a_run_ends_and_nothing_of_it_stays(seed: int, scratch: ScratchRun) -> None:
    random = Random(seed)  # noqa: S311
    missing = {"after": "2s", "then": random.choice(("wait", "skip", "abort"))}
    scratch.write_plan(stop=random.choice(({"time": "3s"}, {"rounds": 30})), missing=missing)
    with scratch.start() as process:
        if random.random() < 0.8:  # else while it starts
            deadline_s = time.monotonic() + 60.0
            while process.poll() is None and not scratch.trains() and time.monotonic() < deadline_s:
                time.sleep(0.02)
        namespaces = scratch.namespaces()
        for _ in range(random.randint(1, 4)):
            time.sleep(random.uniform(0.0, 0.8))
            if process.poll() is not None:
                break
            random.choice(INJURIES)(scratch, random, process)
        try:
            _, said = process.communicate(timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            pytest.fail(f"it hangs: {scratch.testbed('status', 'long').output}")
    assert process.returncode in CODES, said
    assert "Traceback" not in said, said
    if not scratch.run.path.exists():
        scratch.assert_all_ended(namespaces)
        return
    destroyed = scratch.testbed("destroy", "long")
    assert destroyed.exit_code in (0, 2), destroyed.output  # 2: there is not even a plan yet
    scratch.assert_nothing_is_left(namespaces)
    collected = scratch.testbed("collect", "long")
    assert collected.exit_code in ({0} if process.returncode == 0 else COLLECTED), collected.output
    assert collected.exception is None or isinstance(collected.exception, SystemExit)
    for journal in (*scratch.run.nodes.glob("*/journal.jsonl"), scratch.run.events):
        if journal.is_file():
            *whole, _last = journal.read_bytes().split(b"\n")
            for line in whole:
                json.loads(line)
