"""The fabric on another kernel than this one: `python -m tests.engines.odd_kernel ERROR FOLDER PARENT`.

Every read and write that says that it does not wait comes to that error.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Any

import pytest

from testbed.engines.fabric.__main__ import main
from tests.engines.shimmed import shim


def make_odd(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    """Of every fabric that is started from here."""
    shim(monkeypatch, "tests.engines.odd_kernel", (errno.errorcode[error],), error=error)


def fails_with(error: int) -> Any:
    def call(*_: Any) -> int:
        raise OSError(error, os.strerror(error))

    return call


if __name__ == "__main__":
    os.preadv = os.pwritev = fails_with(getattr(errno, sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
