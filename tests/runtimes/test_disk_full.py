"""The volume of results is full: the run ends with a clear sentence, and nothing stays."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

import pytest

from tests.runtimes.local_runs import needs_network
from tests.runtimes.scratch_run import PATIENCE_S, ScratchRun, until

pytestmark = [
    needs_network,
    pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a small volume here"),
]

MOUNTED = 'results=$1 size=$2; shift 2; mount -t tmpfs -o "size=$size" tmpfs "$results" && exec "$@"'
"""In a mount namespace of its own, which ends with its last process, and the volume with it."""
FULL = re.compile(r"^Error: .*(No space left on device|the disk is full)", re.MULTILINE)


def on_a_small_volume(scratch: ScratchRun, size: str) -> list[str]:
    scratch.results.mkdir()
    return ["unshare", "--mount", "sh", "-c", MOUNTED, "sh", str(scratch.results), size]


def fill(results: Path) -> None:
    """To the last byte, as far as whole pages go."""
    with suppress(OSError), (results / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


EXIT_CODES = {"before": {2}, "first": {5, 6}, "starting": {5, 6}, "training": {6}}
"""Only what has no place at all is a mistake of the command line; while it starts, a node may be first to notice."""


@pytest.mark.parametrize("phase", EXIT_CODES)
def test_a_full_disk_is_told_in_one_line(phase: str, scratch: ScratchRun) -> None:
    with scratch.start(before=on_a_small_volume(scratch, "8k" if phase == "before" else "4M")) as process:
        inside = ScratchRun(Path(f"/proc/{process.pid}/root{scratch.folder}"), scratch.temporary)
        if phase == "first":
            until(inside.record, process)
        elif phase != "before":
            inside.reach(phase, process)
        namespaces = scratch.namespaces()
        if phase != "before":
            fill(inside.results)
        _, said = process.communicate(timeout=PATIENCE_S)
    assert FULL.search(said), said
    assert "Traceback" not in said
    assert process.returncode in EXIT_CODES[phase], said
    scratch.assert_all_ended(namespaces)
    assert not list(scratch.temporary.iterdir())
