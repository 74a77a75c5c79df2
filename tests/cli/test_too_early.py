"""Commands about a run whose nodes have not begun yet: a clear word each, and nothing happens to the run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from testbed.cli.main import main
from testbed.control.commands import Look, Seen, ask
from testbed.runtimes.tracking.process_records import commands_socket
from tests.runtimes.local_runs import needs_network
from tests.runtimes.scratch_run import PATIENCE_S, ScratchRun, made_in, until

pytestmark = needs_network

SLOW = """
import os, sys, time
from testbed.node.algorithms.dpsgd import DPSGD

def who():
    # Each node is the first process of its namespace, and has the same number as the zygote in its own.
    return os.getpid(), os.stat("/proc/self/ns/pid").st_ino

ZYGOTE = who()
def wait_for(name):
    while "zygote" in sys.argv[0] and not os.path.exists(os.path.join({folder!r}, name)):
        time.sleep(0.02)

wait_for("warm")

class Slow(DPSGD):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        if who() != ZYGOTE:
            wait_for("go")
"""
CHANGES = (
    "link set RUN node.0 hub --latency 7ms",
    "link reset RUN",
    "fault pause RUN node.0",
    "fault resume RUN node.0",
    "fault disconnect RUN node.0",
    "fault reconnect RUN node.0",
    "fault kill RUN node.0",
    "fault crash RUN node.0 --for 1s",
    "fault leave RUN node.0",
    "fault join RUN node.0",
    "fault partition RUN node.0 / node.1",
    "fault heal RUN",
    "fault flap RUN node.0 hub",
)
TOO_EARLY = ("not that far yet", "has not begun yet")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScratchRun]:
    """Whose run gets no further than it is let."""
    with made_in(tmp_path_factory.mktemp("early")) as made:
        (made.folder / "slow.py").write_text(SLOW.format(folder=str(made.folder)))
        made.write_plan(algorithm={"name": f"{made.folder / 'slow.py'}:Slow"})
        with made.start() as process:
            until(lambda: made.process("zygote"), process)
            yield made
            for name in ("warm", "go"):
                (made.folder / name).touch()
            assert made.testbed("destroy", "long").exit_code == 0
            _, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130, said


@pytest.fixture(scope="module", params=["warming", "connecting"])
def stage(request: pytest.FixtureRequest, scratch: ScratchRun) -> str:
    """`warming`: no node is there; `connecting`: all are, and none is ready."""
    if request.param == "connecting":
        (scratch.folder / "warm").touch()
        until(lambda: scratch.process("node 2"))
    return str(request.param)


def told(scratch: ScratchRun, words: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(scratch.run.path) if each == "RUN" else each for each in words.split()])
    assert isinstance(result.exception, SystemExit | None), result.exception
    return result.exit_code, result.output


def is_untouched(scratch: ScratchRun) -> bool:
    record = scratch.record()
    assert record is not None
    seen = ask(commands_socket(Path(record.sockets)), Look())
    assert isinstance(seen, Seen)
    return (seen.phase, seen.t, seen.rounds) == ("starting", 0.0, 0)


@pytest.mark.parametrize("words", CHANGES)
def test_what_cannot_be_done_yet(words: str, stage: str, scratch: ScratchRun) -> None:
    exit_code, said = told(scratch, words)
    if stage == "connecting" and words.startswith("link"):
        assert exit_code == 0, said  # the network is there
    else:
        assert exit_code == 2, said
        assert any(each in said for each in TOO_EARLY), said
    assert is_untouched(scratch)


def test_what_can_be_seen_already(stage: str, scratch: ScratchRun, tmp_path: Path) -> None:
    exit_code, said = told(scratch, "status RUN --format json")
    assert exit_code == 0
    assert json.loads(said)[0]["state"] == "starting"
    assert told(scratch, "logs RUN")[0] == 0
    exit_code, said = told(scratch, "link show RUN node.0 hub")
    assert (exit_code, "node.0" in said) == (0, True)
    exit_code, said = told(scratch, f"capture RUN node.0 --for 50ms -o {tmp_path / 'a.pcap'}")
    assert exit_code == 0, said
    exit_code, said = told(scratch, "verify RUN")
    assert (exit_code, "has not begun yet" in said) == (2, True), said
    exit_code, said = told(scratch, "collect RUN")
    assert exit_code in (2, 8), said
    if stage == "warming":
        exit_code, said = told(scratch, "exec RUN node.0 -- true")
        assert (exit_code, "does not live now" in said) == (2, True), said
    assert is_untouched(scratch)
