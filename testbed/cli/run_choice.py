"""Which runtime and engine a run gets, and the words that say why.

Takes options and the environment, gives names and words; tries what this machine allows.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from testbed.engines.abilities import what_is_denied
from testbed.engines.namespace import TcpSettings
from testbed.errors import PreflightRefused, UsageProblem, did_you_mean
from testbed.runtimes.docker.image_facts import may_mean_image

SIM, LOCAL, DOCKER = "sim", "local", "docker"
RUNTIMES = (SIM, LOCAL, DOCKER)
_LATER = ("swarm", "kubernetes", "kollaps")
ENGINES = ("fabric", "none")
UNSHAPED = "none"
_PIN = "TESTBED_RUNTIME"


@dataclass(frozen=True)
class Chosen:
    """A runtime that there is; whether this machine has what it takes is asked once all else is known to be right."""

    name: str
    why: str = ""
    """Nothing where somebody has asked for it just now."""
    is_default: bool = False

    def settle(self, say: Callable[[str], None]) -> None:
        """Says which it is, and why; raises PreflightRefused where the default cannot be had.

        Nothing else is taken instead: a run that looks like the one asked for must be it.
        """
        if self.is_default and (denied := what_is_denied(TcpSettings())):
            raise PreflightRefused(
                f"real learners cannot have networks of their own on this machine: {denied.message}",
                f"`testbed doctor` says what to do; --runtime {SIM} runs in virtual time, "
                f"--engine {UNSHAPED} over plain loopback, unshaped",
            )
        if self.why:
            say(f"runtime: {self.name} ({self.why})")


def choose_runtime(asked: str | None, engine: str | None, why_no_containers: Callable[[], str | None]) -> Chosen:
    """The runtime asked for, by option or environment, or the default one; raises UsageProblem for one there is not.

    `why_no_containers` says nothing where an Engine has what containers run, or all packages for it.
    """
    if asked is not None:
        return Chosen(check_runtime(asked))
    if pinned := os.environ.get(_PIN):
        return Chosen(check_runtime(pinned, f"{_PIN}: "), f"{_PIN} says so")
    if engine == UNSHAPED:
        return Chosen(LOCAL, "real processes, no engine")
    reason = why_no_containers() if engine is None else f"--engine {engine}"
    if reason is None:
        return Chosen(
            DOCKER,
            f"an Engine answers, and has the image or all packages for it; --runtime {LOCAL} is processes without "
            "containers",
        )
    return Chosen(LOCAL, f"{reason}; --runtime {SIM} is virtual time", is_default=True)


def check_runtime(name: str, where: str = "") -> str:
    if name in RUNTIMES:
        return name
    if name in _LATER:
        raise UsageProblem(
            f"{where}this version of testbed cannot run on `{name}` yet", f"there is: {', '.join(RUNTIMES)}"
        )
    raise UsageProblem(f"{where}there is no runtime `{name}`", did_you_mean(name, RUNTIMES))


def check_image(runtime: str, image: str | None) -> None:
    """Raises UsageProblem for one that nothing would run."""
    if image is not None and runtime != DOCKER:
        raise UsageProblem(f"runtime `{runtime}` has no images", f"--image is for --runtime {DOCKER}")
    if image is not None and not may_mean_image(image):
        raise UsageProblem(f"--image: `{image}` cannot be an image's name", "small letters, digits, dashes: my-image:1")


def check_sockets(runtime: str, sockets: str | None) -> None:
    """Raises UsageProblem for a choice that nothing would follow."""
    if sockets is not None and runtime != DOCKER:
        raise UsageProblem(f"runtime `{runtime}` has no choice of sockets", f"--sockets is for --runtime {DOCKER}")


def check_engine(runtime: str, engine: str | None) -> str | None:
    """The engine asked for, where the runtime takes one."""
    if engine is not None and runtime != LOCAL:
        raise UsageProblem(f"runtime `{runtime}` has no choice of engines", f"--engine is for --runtime {LOCAL}")
    return engine
