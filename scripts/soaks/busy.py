"""Cores kept busy by something else, for as long as a block lasts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SPIN = "import os\nwhile os.getppid() == {parent}: sum(range(100_000))"
"""Ends with the process that began it, whatever becomes of that."""


@contextmanager
def kept_busy(cores: int) -> Iterator[list[int]]:
    """So many processes that spin, of ordinary priority; gives their ids, and ends them."""
    program = _SPIN.format(parent=os.getpid())
    spinning = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(cores)]
    try:
        yield [each.pid for each in spinning]
    finally:
        for each in spinning:
            each.kill()
            each.wait()
