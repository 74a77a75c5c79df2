"""Which runtime and engine a run gets, and the words that say why.

Takes options and the environment, gives names; tries what this machine allows.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from testbed.engines.abilities import what_is_denied
from testbed.engines.namespace import TcpSettings
from testbed.errors import PreflightRefused, UsageProblem, did_you_mean

SIM, LOCAL = "sim", "local"
RUNTIMES = (SIM, LOCAL)
_LATER = ("docker", "swarm", "kubernetes", "kollaps")
ENGINES = ("fabric", "none")
_UNSHAPED = "none"
_PIN = "TESTBED_RUNTIME"


def choose_runtime(asked: str | None, engine: str | None, say: Callable[[str], None]) -> str:
    """The runtime asked for, by option or environment; says which one and why unless it was the option."""
    if asked is not None:
        return check_runtime(asked)
    if pinned := os.environ.get(_PIN):
        check_runtime(pinned, f"{_PIN}: ")
        say(f"runtime: {pinned} ({_PIN} says so)")
        return pinned
    if engine == _UNSHAPED:
        say(f"runtime: {LOCAL} (real processes, no engine)")
        return LOCAL
    return _default(say)


def _default(say: Callable[[str], None]) -> str:
    """Where it cannot be had nothing else is taken instead: a run that looks like the one asked for must be it."""
    if denied := what_is_denied(TcpSettings()):
        raise PreflightRefused(
            f"real learners cannot have networks of their own on this machine: {denied.message}",
            f"`testbed doctor` says what to do; --runtime {SIM} runs in virtual time, "
            f"--engine {_UNSHAPED} over plain loopback, unshaped",
        )
    say(f"runtime: {LOCAL} (this machine lets every node have a network of its own; --runtime {SIM} is virtual time)")
    return LOCAL


def check_runtime(name: str, where: str = "") -> str:
    if name in RUNTIMES:
        return name
    if name in _LATER:
        raise UsageProblem(
            f"{where}this version of testbed cannot run on `{name}` yet", f"there is: {', '.join(RUNTIMES)}"
        )
    raise UsageProblem(f"{where}there is no runtime `{name}`", did_you_mean(name, RUNTIMES))


def check_engine(runtime: str, engine: str | None) -> str | None:
    """The engine asked for, where the runtime takes one."""
    if engine is not None and runtime != LOCAL:
        raise UsageProblem(f"runtime `{runtime}` has no choice of engines", f"--engine is for --runtime {LOCAL}")
    return engine
