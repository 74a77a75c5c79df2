"""Which runtime and engine a run gets, and the words that say why.

Takes options and the environment, gives names and words; tries what this machine allows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from testbed.errors import PreflightRefused, UsageProblem, did_you_mean
from testbed.linux import HAS_LINUX, NEED_LINUX, has_unix_sockets, is_linux, need_linux

if TYPE_CHECKING:
    from testbed.plan.model import How, RuntimeChoice

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
    """Nothing where an option of this command asked for it."""
    how: How = "asked"
    only_real: tuple[str, ...] = ()
    """Options of this command that virtual time has no use for."""
    remark: str = ""
    """What else to say of the choice: how to get another one."""

    def settle(self, say: Callable[[str], None], only_real: Sequence[str] = ()) -> Chosen:
        """The runtime that this machine can have, having said which and why: this one, or `sim` for the default.

        That it is not what would have been taken is never kept quiet. Raises PreflightRefused where `sim` would ignore
        something that was asked for: a run that looks like the one asked for must be it.
        """
        denied = _what_is_denied() if self.how == "default" and self.name == LOCAL else None
        if denied is None:
            if self.why:
                say(f"runtime: {self.name} ({self.why}{self.remark and f'; {self.remark}'})")
            return self
        asked = [*self.only_real, *only_real]
        if asked:
            raise PreflightRefused(
                f"real learners cannot have networks of their own on this machine: {denied.message}",
                f"{denied.way_out}; without {', '.join(asked)} the run is in virtual time (--runtime {SIM})"
                + (f"; --engine {UNSHAPED} is plain loopback, unshaped" if is_linux() else ""),
            )
        why = f"since real learners cannot run here: {denied.message}; {denied.way_out}"
        click.echo(f"runtime: {SIM}, virtual time, {why}", err=True)
        return Chosen(SIM, denied.message, "fallback")

    def for_plan(self) -> RuntimeChoice:
        from testbed.plan.model import RuntimeChoice

        return RuntimeChoice(how=self.how, why=self.why)


@dataclass(frozen=True)
class _Denied:
    message: str
    way_out: str


def _what_is_denied() -> _Denied | None:
    if not is_linux():
        return _Denied(NEED_LINUX, HAS_LINUX)
    from testbed.engines.namespace import TcpSettings
    from testbed.engines.network_check import what_is_denied

    denied = what_is_denied(TcpSettings())
    if denied is None:
        return None
    return _Denied(denied.message, denied.way_out or "`testbed doctor` looks at what it takes")


def choose_runtime(
    asked: str | None,
    engine: str | None,
    why_no_containers: Callable[[], str | None],
    only_real: Sequence[str] = (),
) -> Chosen:
    """The runtime asked for, by option or environment, or the default one; raises UsageProblem for one there is not.

    `why_no_containers` says nothing where an Engine has the image that containers run. `only_real`: options given, but
    for --engine, that virtual time would ignore.
    """
    if asked is not None:
        return Chosen(check_runtime(asked))
    if pinned := os.environ.get(_PIN):
        return Chosen(check_runtime(pinned, f"{_PIN}: "), f"{_PIN} says so")
    if engine == UNSHAPED:
        return Chosen(check_runtime(LOCAL, f"--engine {UNSHAPED}: "), "real processes, no engine")
    reason: str | None = f"--engine {engine}"
    if engine is None:
        reason = why_no_containers() if has_unix_sockets() else NEED_LINUX
    if reason is None:
        return Chosen(
            DOCKER,
            "an Engine answers, and has the image",
            "default",
            remark=f"--runtime {LOCAL} is processes without containers",
        )
    given = tuple(only_real) if engine is None else (f"--engine {engine}", *only_real)
    return Chosen(LOCAL, reason, "default", given, f"--runtime {SIM} is virtual time")


def check_runtime(name: str, where: str = "") -> str:
    """Raises UsageProblem for one that there is not, PreflightRefused for one that this system cannot have."""
    if (name == LOCAL and not is_linux()) or (name == DOCKER and not has_unix_sockets()):
        raise need_linux(f"{where}runtime `{name}`")
    if name in RUNTIMES:
        return name
    if name in _LATER:
        raise UsageProblem(
            f"{where}this version of testbed cannot run on `{name}` yet", f"there is: {', '.join(RUNTIMES)}"
        )
    raise UsageProblem(f"{where}there is no runtime `{name}`", did_you_mean(name, RUNTIMES))


def check_image(runtime: str, image: str | None) -> None:
    """Raises UsageProblem for one that nothing would run."""
    from testbed.runtimes.docker.image_facts import may_mean_image

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
