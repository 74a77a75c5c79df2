"""The first process of a container: `python -m testbed.runtimes.containers WORD`.

WORD is learner, control, fabric, sockets, prepare with the words of a command line, or check with names of code. Gives
an exit code. `learner` starts as root, and changes to TESTBED_UID and TESTBED_GID when it has its network. `sockets`
runs as root, too: it gives new volumes to that user, and ends. Light: each word imports only what it needs.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # `typing` takes longer to load than all else in here
if TYPE_CHECKING:
    from testbed.engines.privileges import User
    from testbed.protocol.zygote import Fork
    from testbed.runtimes.containers.container_paths import ContainerPaths

_WORDS = "learner, control, fabric, sockets, prepare, check"


def main(arguments: list[str]) -> int:
    match arguments:
        case ["learner"]:
            return _learner()
        case ["control"]:
            return _control()
        case ["fabric"]:
            from testbed.engines.fabric.__main__ import main as fabric
            from testbed.runtimes.containers.container_paths import ContainerPaths

            return fabric([str(ContainerPaths().fabric), str(os.getppid())])
        case ["sockets"]:
            return _sockets()
        case ["check", *names]:
            from testbed.runtimes.containers.check_code import check

            return check(names)
        case ["prepare", *words]:
            # Process 1 never gets a signal that it has no handler for; a blocked one waits until it has a handler.
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
            os.execv(sys.executable, [sys.executable, "-m", "testbed", "prepare", *words])  # noqa: S606 - without a shell
    return _usage(f"this container can be: {_WORDS}")


def _control() -> int:
    """Runs control. Probes the sockets before the imports: the command waits for that to start all other containers."""
    from testbed.errors import PreflightRefused
    from testbed.runtimes.containers.container_paths import ContainerPaths
    from testbed.runtimes.containers.reachability import PROBE_FIRST, UNREACHED, Unreached, probe

    inside = ContainerPaths()
    try:
        if os.environ.get(PROBE_FIRST):
            probe(inside)
    except PreflightRefused as problem:
        sys.stdout.write(f"Error: {problem.message}\n{problem.hint}\n")
        return UNREACHED if isinstance(problem, Unreached) else problem.exit_code
    from testbed.runtimes.containers.control_service import run_control

    return run_control(inside)


def _learner() -> int:
    from testbed.runtimes.containers import ROOT
    from testbed.runtimes.containers.arrival import arrive

    user = _user()
    if isinstance(user, int):
        return user
    arrived = arrive(ROOT, user)
    if isinstance(arrived, int):
        return arrived
    # What reads messages is imported only now, when all containers have connected, or have had time to.
    from testbed.runtimes.containers.container_paths import ContainerPaths
    from testbed.runtimes.containers.supervisor import Supervisor

    return Supervisor(ContainerPaths(), arrived, _live).run()


def _sockets() -> int:
    from testbed.cores import usable_cores
    from testbed.runtimes.containers.container_paths import ContainerPaths
    from testbed.runtimes.containers.layout import make_mounted

    user = _user()
    if isinstance(user, int):
        return user
    make_mounted(ContainerPaths().sockets, user, usable_cores())
    return 0


def _user() -> User | int:
    """The run's user; an exit code if the environment does not name it."""
    from testbed.engines.privileges import User

    who = [os.environ.get(name, "") for name in ("TESTBED_UID", "TESTBED_GID")]
    if all(each.isdecimal() for each in who):
        return User(int(who[0]), int(who[1]))
    return _usage("TESTBED_UID and TESTBED_GID must be the learner's numeric user and group ids")


def _live(inside: ContainerPaths, order: Fork) -> None:
    """Imports what learning needs in the learner's process only, so that the first process stays small."""
    from testbed.runtimes.containers.learner import live

    live(inside, order)


def _usage(problem: str) -> int:
    from testbed.errors import ExitCode

    sys.stderr.write(f"{problem}\n")
    return ExitCode.USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
