"""A client of the user's Docker Engine, whose errors become messages.

Takes nothing, gives a client; touches the Docker Engine's socket. Every request gives an answer or raises a
`TestbedError`: no Docker Engine, no permission, no space.
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
"""Limit of one answer. Removing a large image on a busy disk takes long. The output of a build has no limit."""
_CONNECT_S = 20.0
_NO_MOUNT = (
    "bind source path does not exist",
    "error while creating mount source path",
    "error mounting",
    "Mounts denied",
    "is not shared from the host",
)
"""Messages of Docker Engines about folders that they cannot mount."""
_TUN = "/dev/net/tun"
NOT_HERE = (
    "where that is another machine, or a virtual one (Docker Desktop), run testbed there, or start there what "
    "`testbed render --target compose` writes"
)
_DEFAULT = "unix:///var/run/docker.sock"
_RETURN_S = 30.0
"""How long an outage may last."""
_AGAIN_S = 0.25
_Answer = TypeVar("_Answer")


@contextmanager
def connected(timeout_s: float = _ANSWER_S) -> Iterator[DockerClient]:
    """A client of a responding Docker Engine, closed at the end. Its errors become TestbedErrors."""
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
    """Closes all responses received while entered: the SDK does not close a stream that is not read to its end."""
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
    """Raises OSError if nothing listens on the socket. The SDK would leave its own socket open in this case."""
    kind, _, path = address.partition("://")
    if kind == "unix":
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_CONNECT_S)
            connection.connect(path)


def engine_address() -> str:
    """The Docker Engine's address: from DOCKER_HOST, else from the current Docker context, else the default."""
    given = os.environ.get("DOCKER_HOST")
    if given:
        return given
    from docker.context import ContextAPI

    try:
        context = ContextAPI.get_current_context()
    except Exception:  # the context's files may hold anything; the default is the best guess
        return _DEFAULT
    host = getattr(context, "Host", None)
    return host if isinstance(host, str) and host.startswith(("unix://", "npipe://", "tcp://")) else _DEFAULT


def cannot_reach(address: str, problem: BaseException) -> PreflightRefused:
    """The error for a Docker Engine that cannot be reached."""
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


class DockerEngineSilent(CouldNotStart):
    """The Docker Engine no longer answers. Its containers may go on, and cannot be removed now."""


def is_outage(problem: BaseException) -> bool:
    """Whether the Docker Engine gave no answer at all, rather than an error."""
    import requests
    from docker.errors import APIError

    return isinstance(problem, requests.RequestException) and not isinstance(problem, APIError)


def in_words(problem: BaseException, address: str, timeout_s: float) -> TestbedError:
    """The error for a request to a Docker Engine that answered before; `timeout_s` is how long the request waited."""
    import requests
    from docker.errors import APIError

    if isinstance(problem, APIError):
        return refused(problem.explanation or str(problem))
    if any(isinstance(each, requests.Timeout) for each in _causes(problem)):
        return DockerEngineSilent(
            f"the Docker Engine at {address} has not answered for {timeout_s:.0f} s", "is it busy?"
        )
    if any(isinstance(each, ConnectionError | FileNotFoundError) for each in _causes(problem)):
        return DockerEngineSilent(f"the Docker Engine at {address} does not answer any more", "has it been restarted?")
    return CouldNotStart(f"the Docker Engine at {address}: {_first_line(problem)}")


def refused(said: str) -> TestbedError:
    """The Docker Engine's error message as a TestbedError, with a hint if the cause is known."""
    message, hint = what_helps(said)
    return PreflightRefused(message, hint) if _is_full(said) else CouldNotStart(message, hint)


def what_helps(said: str) -> tuple[str, str]:
    """A message for the Docker Engine's error, and a hint; the hint is empty if the cause is unknown."""
    if _is_full(said):
        return (
            f"no space left where the Docker Engine keeps its images and containers: {_first_line(said)}",
            "`docker system df` shows what takes it, `docker image prune` removes what nothing names",
        )
    if any(words in said for words in _NO_MOUNT):
        return (
            f"the Docker Engine cannot mount the folder of results: {_first_line(said)}",
            f"give --results a folder of the machine that the Docker Engine runs on, which it may read; {NOT_HERE}",
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
    """A problem and all its causes. Libraries wrap exceptions of other libraries, sometimes as an argument."""
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


class DockerEngineOutage:
    """Repeats requests of one run while the Docker Engine does not answer."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.was_away = False
        """Whether there was any outage."""
        self._is_over = False

    def ask(self, question: Callable[[], _Answer], sees_life: Callable[[], bool] = lambda: False) -> _Answer:
        """The answer to `question`; waits during an outage. Raises the question's exception if it lasts too long.

        The limit starts again whenever `sees_life` says that the run goes on. After one outage that was too long,
        nothing waits any more.
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
