"""Which runtime and engine a run gets, and the words that say why.

Takes options and the environment, gives names; tries what this machine allows.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from testbed.errors import UsageProblem, did_you_mean

SIM, LOCAL = "sim", "local"
RUNTIMES = (SIM, LOCAL)
_LATER = ("docker", "swarm", "kubernetes", "kollaps")
ENGINES = ("fabric", "none")


def choose_runtime(asked: str | None, engine: str | None, say: Callable[[str], None]) -> str:
    """The runtime asked for, by option or environment; says which one and why unless it was the option."""
    if asked is not None:
        return check_runtime(asked)
    if pinned := os.environ.get("TESTBED_RUNTIME"):
        check_runtime(pinned)
        say(f"runtime: {pinned} (TESTBED_RUNTIME says so)")
        return pinned
    if engine is not None:
        say(f"runtime: {LOCAL} (it has an engine)")
        return LOCAL
    return _default(say)


def _default(say: Callable[[str], None]) -> str:
    say(f"runtime: {SIM} (virtual time; --runtime {LOCAL} starts real processes)")
    return SIM


def check_runtime(name: str) -> str:
    if name in RUNTIMES:
        return name
    if name in _LATER:
        raise UsageProblem(f"this version of testbed cannot run on `{name}` yet", f"there is: {', '.join(RUNTIMES)}")
    raise UsageProblem(f"there is no runtime `{name}`", did_you_mean(name, RUNTIMES))


def check_engine(runtime: str, engine: str | None) -> str | None:
    """The engine asked for, where the runtime takes one."""
    if engine is not None and runtime != LOCAL:
        raise UsageProblem(f"runtime `{runtime}` has no choice of engines", f"--engine is for --runtime {LOCAL}")
    return engine
