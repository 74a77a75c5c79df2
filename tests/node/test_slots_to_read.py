"""Slots in a read-only folder can be taken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.node.compute_slots import make_slots

ROOT = Path(__file__).parents[2]
TAKEN = """
import sys
from pathlib import Path
from testbed.node.compute_slots import ComputeSlots, holders, slots_in

folder = Path(sys.argv[1])
slots, others = (ComputeSlots(folder, slots_in(folder), 0) for _ in range(2))
with slots.one(), others.one_if_free() as is_free:
    assert not is_free
    assert holders(folder)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make such a place here")
@pytest.mark.processes
def test_who_may_only_read_them_takes_them(tmp_path: Path) -> None:
    make_slots(tmp_path, 1)
    mounted = (
        'mount --bind -o ro "$1" "$1" && mount -o remount,bind,ro "$1" && ! touch "$1/other" && exec "$2" -c "$3" "$1"'
    )
    words = ["unshare", "--mount", "sh", "-c", mounted, "sh", str(tmp_path), sys.executable, TAKEN]
    subprocess.run(words, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
