"""A connection to the Docker Engine that the user means, and its troubles in words.

Takes nothing, gives a client; touches the Engine's socket. Whoever asks gets an answer or a `TestbedError`: none, no
permission, not enough room.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from testbed.errors import CouldNotStart, PreflightRefused, TestbedError

if TYPE_CHECKING:
    from docker import DockerClient
    from requests import Response

_ANSWER_S = 300.0
"""How long one answer may take: on a busy disk removing a large image is long. A build's lines come without a limit."""
_CONNECT_S = 20.0
_NO_MOUNT = (
    "bind source path does not exist",
    "error while creating mount source path",
    "error mounting",
    "Mounts denied",
    "is not shared from the host",
)
"""What Engines say of folders that are not theirs."""
_TUN = "/dev/net/tun"
NOT_HERE = (
    "where that is another machine, or a virtual one (Docker Desktop), run testbed there, or start there what "
    "`testbed render --target compose` writes"
)
_DEFAULT = "unix:///var/run/docker.sock"
_RETURN_S = 30.0
"""How long it may be away."""
_AGAIN_S = 0.25
_Answer = TypeVar("_Answer")


@contextmanager
def connected(timeout_s: float = _ANSWER_S) -> Iterator[DockerClient]:
    """A client of an Engine that has answered, closed in the end; what goes wrong with it is a TestbedError."""
    import docker
    import requests
    from docker.errors import DockerException
    from docker.utils import kwargs_from_env

    address = engine_address()
    try:
        _check_listening(address)
        client = docker.DockerClient(
            base_url=address, timeout=max(1, round(timeout_s)), tls=kwargs_from_env().get("tls", False)
        )
    except (DockerException, requests.RequestException, OSError, ValueError) as problem:
        raise cannot_reach(address, problem) from None
    try:
        yield client
    except (DockerException, requests.RequestException) as problem:
        raise in_words(problem, address, timeout_s) from problem
    finally:
        client.close()


@contextmanager
def answers_closed(engine: DockerClient) -> Iterator[None]:
    """What it answers meanwhile is closed: the SDK leaves a stream that is not read to its end to whoever collects."""
    answers: list[Response] = []
    hooks = engine.api.hooks["response"]

    def keep(answer: Response, **_how: object) -> None:
        answers.append(answer)

    hooks.append(keep)
    try:
        yield
    finally:
        hooks.remove(keep)
        for each in answers:
            each.close()


def _check_listening(address: str) -> None:
    """Raises OSError when nobody listens: the SDK would leave its socket open to whoever collects garbage."""
    kind, _, path = address.partition("://")
    if kind == "unix":
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_CONNECT_S)
            connection.connect(path)


def engine_address() -> str:
    """Where the Engine is: as DOCKER_HOST says, else as the `docker` command's context does, else as usual."""
    given = os.environ.get("DOCKER_HOST")
    if given:
        return given
    from docker.context import ContextAPI

    try:
        context = ContextAPI.get_current_context()
    except Exception:  # whatever its files hold: the usual place is as good a guess as any
        return _DEFAULT
    host = getattr(context, "Host", None)
    return host if isinstance(host, str) and host.startswith(("unix://", "npipe://", "tcp://")) else _DEFAULT


def cannot_reach(address: str, problem: BaseException) -> PreflightRefused:
    """Why no Engine answers."""
    causes = list(_causes(problem))
    if any(isinstance(each, PermissionError) for each in causes):
        return PreflightRefused(
            f"no permission to use the Docker Engine at {address}",
            "join the group that owns the socket (usually: sudo usermod -aG docker $USER, then log in again)",
        )
    gone = any(isinstance(each, FileNotFoundError | ConnectionRefusedError) for each in causes)
    words = "" if gone else f": {_first_line(problem)}"
    return PreflightRefused(
        f"no Docker Engine answers at {address}{words}",
        "start it, or install it (scripts/docker-engine does on Debian); or take --runtime local",
    )


class EngineSilent(CouldNotStart):
    """An Engine that had answered does not any more: what it runs may go on, and cannot be removed now."""


def is_outage(problem: BaseException) -> bool:
    """Whether an Engine has given no answer at all, rather than one that somebody dislikes."""
    import requests
    from docker.errors import APIError

    return isinstance(problem, requests.RequestException) and not isinstance(problem, APIError)


def in_words(problem: BaseException, address: str, timeout_s: float) -> TestbedError:
    """What an Engine that had answered said, or that it answers no more; it was waited for so long."""
    import requests
    from docker.errors import APIError

    if isinstance(problem, APIError):
        return refused(problem.explanation or str(problem))
    if any(isinstance(each, requests.Timeout) for each in _causes(problem)):
        return EngineSilent(f"the Docker Engine at {address} has not answered for {timeout_s:.0f} s", "is it busy?")
    if any(isinstance(each, ConnectionError | FileNotFoundError) for each in _causes(problem)):
        return EngineSilent(f"the Docker Engine at {address} does not answer any more", "has it been restarted?")
    return CouldNotStart(f"the Docker Engine at {address}: {_first_line(problem)}")


def refused(said: str) -> TestbedError:
    """The Engine's own words as a refusal: where it is known what helps, they say that, too."""
    message, hint = what_helps(said)
    return PreflightRefused(message, hint) if _is_full(said) else CouldNotStart(message, hint)


def what_helps(said: str) -> tuple[str, str]:
    """What the Engine means by its words, and what to do; nothing to do where that is not known."""
    if _is_full(said):
        return (
            f"no space left where the Docker Engine keeps its images and containers: {_first_line(said)}",
            "`docker system df` shows what takes it, `docker image prune` removes what nothing names",
        )
    if any(words in said for words in _NO_MOUNT):
        return (
            f"the Docker Engine cannot mount the folder of results: {_first_line(said)}",
            f"give --results a folder of the machine that the Engine runs on, which it may read; {NOT_HERE}",
        )
    if _TUN in said:
        return (
            f"the machine of the Docker Engine has no {_TUN}: {_first_line(said)}",
            "load the kernel's module there: sudo modprobe tun",
        )
    return f"the Docker Engine says: {_first_line(said)}", ""


def _is_full(said: str) -> bool:
    return "no space left on device" in said or "disk quota exceeded" in said.lower()


def _causes(problem: BaseException) -> Iterator[BaseException]:
    """A problem and all that it came from: libraries wrap one another's, some as an argument."""
    seen: set[int] = set()
    waiting: list[object] = [problem]
    while waiting:
        each = waiting.pop()
        if not isinstance(each, BaseException) or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        waiting += [each.__cause__, each.__context__, getattr(each, "reason", None), *each.args]


def _first_line(problem: object) -> str:
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return lines[0][:500] if lines else type(problem).__name__


class EngineOutage:
    """Of one run."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.was_away = False
        """Whether it has ever been."""
        self._is_over = False

    def ask(self, question: Callable[[], _Answer], sees_life: Callable[[], bool] = lambda: False) -> _Answer:
        """The answer, perhaps after a while; raises what the question does when it has been away for too long.

        As long as the run itself is seen to live, it is never too long. Once it was, nothing is waited for any more.
        """
        until_s: float | None = None
        while True:
            try:
                return question()
            except Exception as problem:
                if self._is_over or not is_outage(problem):
                    raise
                if until_s is None:
                    self.was_away = True
                    self._say(f"warning: the Docker Engine does not answer; waiting for it, {_RETURN_S:.0f} s at least")
                if until_s is None or sees_life():
                    until_s = time.monotonic() + _RETURN_S
                if time.monotonic() > until_s:
                    self._is_over = True
                    raise
            time.sleep(_AGAIN_S)
