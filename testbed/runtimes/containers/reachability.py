"""The first word of a run's containers to the command that starts them: sockets in the run's folder reach over there.

Takes what a container has of the run, gives nothing; connects to one of its sockets. Where containers run in another
machine than the command, a real or a virtual one, they may share its files and yet no sockets.
"""

from __future__ import annotations

import errno
import socket

from testbed.errors import PreflightRefused
from testbed.runtimes.containers.container_paths import ContainerPaths

PROBE_FIRST = "TESTBED_PROBE_FIRST"
"""Environment variable of a container that is to probe before it does anything else."""
PROBE_SOCKET = "probe.sock"
"""Where the command waits for that."""
UNREACHED = 76
"""Exit code of a container that shares the run's files, and cannot reach its sockets."""
_TIMEOUT_S = 10.0
_UNREACHED_BY = frozenset(
    (errno.ECONNREFUSED, errno.ENOENT, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENXIO, errno.ETIMEDOUT)
)
"""What it is like where files are shared, and sockets are not."""
_ELSEWHERE = "run testbed beside it, or start there what `testbed render --target compose` writes"


class Unreached(PreflightRefused):
    """Files are shared, and sockets are not: those can lie elsewhere."""


def probe(inside: ContainerPaths) -> None:
    """Raises Unreached where nobody is reached, PreflightRefused where sockets elsewhere would not help either."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(_TIMEOUT_S)
        try:
            connection.connect(str(inside.sockets / PROBE_SOCKET))
        except OSError as problem:
            raise _why(inside, problem) from None


def do_not_reach_over(problem: OSError) -> bool:
    """Whether it says so of sockets, rather than of who may use them, or how much room there is."""
    return isinstance(problem, TimeoutError) or problem.errno in _UNREACHED_BY


def _why(inside: ContainerPaths, problem: OSError) -> PreflightRefused:
    try:
        is_shared = inside.run.plan.exists()
    except OSError as denied:  # containers are somebody else there, and may not even look
        problem, is_shared = denied, True
    if not is_shared:
        return PreflightRefused(
            "containers do not see what is in the folder of results",
            f"is it on the machine that the Docker Engine runs on, and shared with it? Else {_ELSEWHERE}",
        )
    words = f"containers cannot reach sockets in the folder of results: {problem.strerror or problem}"
    if not do_not_reach_over(problem):
        return PreflightRefused(words, f"is the Docker Engine rootless, or in a virtual machine? Then {_ELSEWHERE}")
    return Unreached(
        words,
        f"leave out --sockets, or give --sockets volume; is the Docker Engine in a virtual machine? Or {_ELSEWHERE}",
    )
