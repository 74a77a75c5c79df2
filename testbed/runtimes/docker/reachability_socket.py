"""Where the first container of a run knocks: whether containers and this command meet in the run's folder at all.

Takes the folder of sockets, gives who has come; touches a socket there, which is gone afterwards.
"""

from __future__ import annotations

import errno
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.errors import PreflightRefused
from testbed.image.engine_client import NOT_HERE
from testbed.runtimes.containers.reachability import DOOR, Unreached, do_not_reach_over
from testbed.socket_paths import short_enough

_PATIENCE_S = 60.0
"""How long a container that runs may take until it knocks, on a machine that is busy."""
_LOOK_S = 0.2
_DENIED = "may you write there, and is there room? Else give another folder with --results"
_CREDENTIALS = struct.Struct("3i")


class Door:
    """Opened for one run, for whoever comes first."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        listener.settimeout(_LOOK_S)

    def await_knock(self, goes_on: Callable[[], bool], patience_s: float = _PATIENCE_S) -> int | None:
        """The process id of whoever has knocked, 0 where it cannot be seen from here; None when it ended without.

        `goes_on` says whether it still runs. Raises PreflightRefused when it runs and does not come.
        """
        until_s = time.monotonic() + patience_s
        while time.monotonic() < until_s:
            try:
                return self._let_in()
            except TimeoutError:
                if not goes_on():
                    return None
        raise PreflightRefused(
            f"the first container runs, and has not reached this command within {patience_s:g} s",
            "is the image older than this testbed? Then build it again. Or is the folder of results not on the machine "
            f"that the Docker Engine runs on? {NOT_HERE}",
        )

    def _let_in(self) -> int:
        guest, _ = self._listener.accept()
        with guest:
            found = guest.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return int(_CREDENTIALS.unpack(found)[0])


@contextmanager
def open_door(sockets: Path) -> Iterator[Door]:
    """Somebody can knock from now on.

    Raises Unreached where there can be no sockets at all, PreflightRefused where elsewhere would not help.
    """
    path = sockets / DOOR
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        try:
            with short_enough(path) as name:
                listener.bind(name)
        except OSError as problem:
            words = f"there can be no sockets in the folder of results: {problem.strerror or problem}"
            if not do_not_reach_over(problem) and problem.errno != errno.EPERM:  # that is a file system without any
                raise PreflightRefused(words, _DENIED) from None
            raise Unreached(words, "leave out --sockets, or give --sockets volume") from None
        try:
            path.chmod(0o600)
            listener.listen(1)
            yield Door(listener)
        finally:
            path.unlink(missing_ok=True)
