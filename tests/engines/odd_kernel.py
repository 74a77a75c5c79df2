"""The fabric on another kernel than this one: `python -m tests.engines.odd_kernel ERROR FOLDER PARENT`.

Every read and write that says that it does not wait comes to that error.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from testbed.engines.fabric import start
from testbed.engines.fabric.__main__ import main
from testbed.engines.spawn import spawn_module


def make_odd(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    """Of every fabric that is started from here."""

    def start_odd(module: str, arguments: Sequence[str], **more: Any) -> subprocess.Popen[bytes]:
        assert module == "testbed.engines.fabric"
        return spawn_module("tests.engines.odd_kernel", (errno.errorcode[error], *arguments), **more)

    monkeypatch.setattr(start, "spawn_module", start_odd)


def fails_with(error: int) -> Any:
    def call(*_: Any) -> int:
        raise OSError(error, os.strerror(error))

    return call


if __name__ == "__main__":
    os.preadv = os.pwritev = fails_with(getattr(errno, sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
