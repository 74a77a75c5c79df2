"""Records what the nodes of a real run write to their devices, for both data planes to carry again.

`python -m tests.engines.trace_recorder TRACE ARGUMENTS…` runs `testbed deploy` with these arguments, and writes the
first frames of the run to a file: when each came, from whom, its headers and its length; the payload is left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from testbed.engines.fabric import start
from testbed.engines.fabric.__main__ import main as fabric
from testbed.engines.fabric.deliveries import Wait
from testbed.engines.fabric.python_plane import plane
from testbed.engines.fabric.python_plane.forwarder import Forwarder
from testbed.engines.spawn import spawn_module

FRAMES = 5_000
"""After the first half of a second, in which connections are made."""
_FROM_S = 0.5
_HEAD_BYTES = 10 + 60 + 60
_VARIABLE = "TESTBED_TRACE"


class Frame(NamedTuple):
    at_s: float
    since_s: float
    origin: int
    data: bytes


def load(trace: Path) -> list[Frame]:
    """With zeros as payload."""
    with np.load(trace) as found:
        columns = [found[name].tolist() for name in ("at_s", "since_s", "origin", "length")]
        heads = [head.tobytes() for head in found["head"]]
    return [
        Frame(at_s, since_s, origin, head[:length].ljust(length, b"\0"))
        for at_s, since_s, origin, length, head in zip(*columns, heads, strict=True)
    ]


class _Recorder(Forwarder):
    """Notes what is offered to it, and writes the file when it has enough."""

    frames: list[Frame]

    def offer(self, now_s: float, origin: int, data: bytes, since_s: float | None = None) -> Wait | None:
        frames = vars(self).setdefault("frames", [])
        if now_s >= _FROM_S and len(frames) <= FRAMES:
            frames.append(Frame(now_s, now_s if since_s is None else since_s, origin, data))
            if len(frames) == FRAMES:
                _write(Path(os.environ[_VARIABLE]), frames)
        return super().offer(now_s, origin, data, since_s)


def _write(trace: Path, frames: Sequence[Frame]) -> None:
    heads = [np.frombuffer(frame.data[:_HEAD_BYTES].ljust(_HEAD_BYTES, b"\0"), np.uint8) for frame in frames]
    np.savez_compressed(
        trace,
        at_s=[frame.at_s for frame in frames],
        since_s=[frame.since_s for frame in frames],
        origin=np.array([frame.origin for frame in frames], dtype=np.uint16),
        length=np.array([len(frame.data) for frame in frames], dtype=np.uint32),
        head=np.array(heads),
    )


def _record(trace: str, arguments: Sequence[str]) -> int:
    from testbed.cli.main import main

    def start_recorder(module: str, its: Sequence[str], **more: Any) -> subprocess.Popen[bytes]:
        return spawn_module(__spec__.name if module == "testbed.engines.fabric" else module, its, **more)

    os.environ[_VARIABLE] = str(Path(trace).absolute())
    vars(start)["spawn_module"] = start_recorder
    main(["deploy", *arguments, "--fabric", "python"])
    return 0


if __name__ == "__main__":
    if _VARIABLE in os.environ:
        vars(plane)["Forwarder"] = _Recorder
        sys.exit(fabric(sys.argv[1:]))
    sys.exit(_record(sys.argv[1], sys.argv[2:]))
