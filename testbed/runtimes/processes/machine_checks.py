"""Checks what a run of real processes needs of a Linux machine.

Takes nothing, gives checks as data; leaves nothing behind: irreversible steps are tried in child processes.
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

from testbed.cores import usable_cores
from testbed.engines.denied import NetworkDenied, raised_limit
from testbed.engines.fabric.config import AUTO, DEFAULT_PLANE, NATIVE, PYTHON, wanted_plane
from testbed.engines.fabric.native_plane import library
from testbed.engines.kernel import CLONE_NEWNET, CLONE_NEWUSER, unshare
from testbed.engines.machine_facts import MachineFacts
from testbed.engines.namespace import TcpSettings
from testbed.engines.network_check import what_is_denied
from testbed.engines.steps import Step
from testbed.errors import UsageProblem
from testbed.experiment.language import NetworkModel
from testbed.isolation.sandbox_check import sandbox_support
from testbed.memory import available_bytes
from testbed.runtimes.needs import in_gib
from testbed.runtimes.runtime import Check

_FEW_FILES = 4096
_FEW_PROCESSES = 4096
_FEW_NAMESPACES = 1024
_LITTLE_BYTES = 2 * 2**30
_COARSE_S = 1e-6
_SLOW_CLOCKS = ("acpi_pm", "hpet", "pit", "jiffies")
_TUN = "/dev/net/tun"
_FREE = "end other programs, or take few nodes"
_USER = Path("/proc/sys/user")
_TRUSTED = "allow user namespaces (see `emulated network`), or run only code that you trust, or --runtime docker"


def checks() -> Iterator[Check]:
    """All checks, the most important first."""
    yield _network()
    yield _core()
    yield _namespaces()
    yield from _how_many_namespaces()
    yield _apart()
    yield _tun()
    yield from _congestion_controls()
    yield Check("cores", True, f"{usable_cores()}; as many learners train at once")
    memory = available_bytes()
    enough = memory >= _LITTLE_BYTES
    yield Check("memory", enough, f"{in_gib(memory)} available", "" if enough else _FREE)
    yield _limit("open files", resource.RLIMIT_NOFILE, _FEW_FILES, "raise it: ulimit -Hn 65536")
    if os.getuid():
        yield _limit("processes", resource.RLIMIT_NPROC, _FEW_PROCESSES, "raise it: ulimit -Hu 65536")
    yield _idle()
    yield _clock()
    yield _sockets()


def _network() -> Check:
    denied = what_is_denied(TcpSettings())
    if denied is None:
        return Check("emulated network", True, "every node can have its own (namespace, TUN device, cubic)", "", True)
    return Check("emulated network", False, denied.message, denied.hint, True)


def _core() -> Check:
    """The fabric's compiled data plane, and whether runs take it; without it the one in Python does the same."""
    name, denied = "compiled core", library.why_not()
    try:
        wanted = wanted_plane()
    except UsageProblem as problem:
        return Check(name, False, problem.message, problem.hint)
    why = "by default" if wanted == AUTO else f"as {DEFAULT_PLANE}={wanted} says"
    if denied is None:
        takes = "the fabric runs in Python" if wanted == PYTHON else "the fabric takes it"
        return Check(name, True, f"interface {library.ABI}, by {library.compiler()}: {takes} {why}")
    takes = "runs are refused" if wanted == NATIVE else "the fabric runs in Python"
    found = f"{denied.message}, so {takes}"
    return Check(name, False, found if wanted == AUTO else f"{found}, {why}", denied.hint)


def _namespaces() -> Check:
    """User namespaces, without which only root can make network namespaces."""
    name = "user namespaces"
    if os.geteuid() == 0 and _tried(lambda: unshare(CLONE_NEWNET)) is None:
        return Check(name, True, "not needed: this user may make network namespaces")
    problem = _tried(lambda: unshare(CLONE_NEWUSER | CLONE_NEWNET))
    if problem is None:
        return Check(name, True, "this user may make them")
    denied = NetworkDenied(Step.USER_NAMESPACE, problem.strerror or str(problem), problem.errno or 0)
    return Check(name, False, denied.message, denied.hint)


def _how_many_namespaces() -> Iterator[Check]:
    """Limits on namespaces: each node needs one of each kind, and the limit is per user over all runs."""
    for what, file in (("network", "max_net_namespaces"), ("user", "max_user_namespaces")):
        if what == "user" and os.geteuid() == 0:
            continue
        try:
            most = int((_USER / file).read_text())
        except (OSError, ValueError):
            continue
        enough = most >= _FEW_NAMESPACES
        hint = "" if enough else f"raise it: {raised_limit(f'user.{file}', machine=MachineFacts())}"
        yield Check(f"number of {what} namespaces", enough, f"{most} at most", hint)


def _apart() -> Check:
    """Whether learners can be isolated from this machine and from each other."""
    name, how = "learners kept apart", sandbox_support(os.getcwd(), tempfile.gettempdir())
    if how.denied is not None:
        found = f"denied ({how.denied}): they can read and change this user's files, and outlive a run that is killed"
        return Check(name, False, found, _TRUSTED)
    if how.still_root is not None:
        return Check(name, False, f"from files and processes; but they are root ({how.still_root})", _TRUSTED)
    return Check(name, True, "from this machine's files and processes, and from each other")


def _tun() -> Check:
    try:
        os.close(os.open(_TUN, os.O_RDWR | os.O_CLOEXEC))
    except OSError as problem:
        denied = NetworkDenied(Step.TUN_DEVICE, problem.strerror or str(problem), problem.errno or 0)
        return Check(_TUN, False, denied.message, denied.hint)
    return Check(_TUN, True, "can be opened")


def _congestion_controls() -> Iterator[Check]:
    """Congestion controls that experiments may name; a namespace can use what the kernel has."""
    there = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    for name in get_args(NetworkModel.model_fields["congestion"].annotation):
        denied = None if name in there else f"the kernel has {', '.join(there)}"
        hint = f"load it: modprobe tcp_{name}; or plan another: network.congestion"
        yield Check(f"TCP {name}", denied is None, denied or "there", hint if denied else "")


def _limit(name: str, kind: int, few: int, hint: str) -> Check:
    most = resource.getrlimit(kind)[1]
    enough = most == resource.RLIM_INFINITY or most >= few
    found = "as many as wanted" if most == resource.RLIM_INFINITY else f"{most} at most"
    return Check(name, enough, found, "" if enough else hint)


def _idle() -> Check:
    problem = _tried(lambda: os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)))
    if problem is None:
        return Check("idle priority", True, "training gives way")
    found = f"denied ({problem.strerror}): training disturbs the network's timing"
    return Check("idle priority", False, found, "in a container its seccomp profile must allow sched_setscheduler")


def _clock() -> Check:
    """The clock source: reading a slow one delays packets."""
    finest_s = time.clock_getres(time.CLOCK_MONOTONIC)
    try:
        source = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource").read_text().strip()
    except OSError:
        source = "unknown"
    good = finest_s <= _COARSE_S and source not in _SLOW_CLOCKS
    hint = "" if good else "timing will be coarse: boot with clocksource=tsc where the processor's counter is reliable"
    return Check("clock", good, f"{source}, {finest_s * 1e9:g} ns fine", hint)


def _sockets() -> Check:
    """Whether sockets for nodes, control and the fabric can be made in the folder for temporary files."""
    name, folder = "folder of sockets", tempfile.gettempdir()
    try:
        with tempfile.TemporaryDirectory(prefix="testbed-"):
            pass
    except OSError as problem:
        return Check(name, False, f"{folder}: {problem.strerror}", "set TMPDIR to a folder that can be written", True)
    return Check(name, True, folder, "", True)


def _tried(step: Callable[[], None]) -> OSError | None:
    """Runs a step in a child process; returns its error, if any."""
    child = os.fork()
    if child == 0:
        number = 255
        try:
            step()
            number = 0
        except OSError as problem:
            number = problem.errno or 255
        finally:
            os._exit(number)
    number = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return None if number == 0 else OSError(number, os.strerror(number))
