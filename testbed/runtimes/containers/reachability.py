"""The reachability probe: the first container connects to a socket in the run's folder, on which the command listens.

Takes the container's paths, gives nothing; connects to a socket. Containers on another real or virtual machine than the
command may share its files, but not its sockets.
"""

from __future__ import annotations

import errno
import socket

from testbed.errors import PreflightRefused
from testbed.runtimes.containers.container_paths import ContainerPaths

PROBE_FIRST = "TESTBED_PROBE_FIRST"
"""Environment variable of a container that is to probe first."""
PROBE_SOCKET = "probe.sock"
"""The socket on which the command listens."""
UNREACHED = 76
"""Exit code of a container that shares the run's files, but cannot reach its sockets."""
_TIMEOUT_S = 10.0
_UNREACHED_BY = frozenset(
    (errno.ECONNREFUSED, errno.ENOENT, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENXIO, errno.ETIMEDOUT)
)
"""Errors of connecting where files are shared, but sockets are not."""
_ELSEWHERE = "run testbed on its machine, or start there what `testbed render --target compose` writes"


class Unreached(PreflightRefused):
    """Files are shared, but sockets are not: volumes may solve that."""


def probe(inside: ContainerPaths) -> None:
    """Raises Unreached if sockets do not reach the command, PreflightRefused for errors that volumes do not solve."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(_TIMEOUT_S)
        try:
            connection.connect(str(inside.sockets / PROBE_SOCKET))
        except OSError as problem:
            raise _why(inside, problem) from None


def do_not_reach_over(problem: OSError) -> bool:
    """Whether the error means that sockets do not work there, rather than missing permission or space."""
    return isinstance(problem, TimeoutError) or problem.errno in _UNREACHED_BY


def _why(inside: ContainerPaths, problem: OSError) -> PreflightRefused:
    try:
        is_shared = inside.run.plan.exists()
    except OSError as denied:  # containers have another user, such as with a rootless Docker Engine
        problem, is_shared = denied, True
    if not is_shared:
        return PreflightRefused(
            "containers do not see what is in the folder of results",
            f"is the folder on the Docker Engine's machine, and shared with it? Else {_ELSEWHERE}",
        )
    words = f"containers cannot reach sockets in the folder of results: {problem.strerror or problem}"
    if not do_not_reach_over(problem):
        return PreflightRefused(words, f"is the Docker Engine rootless, or in a virtual machine? Then {_ELSEWHERE}")
    return Unreached(
        words,
        f"leave out --sockets, or give --sockets volume; is the Docker Engine in a virtual machine? Or {_ELSEWHERE}",
    )
