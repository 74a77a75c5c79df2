"""User and PID namespaces: entered by a single-threaded process, or made for its next child.

Takes user and group, gives nothing; touches the calling process. Needs only the right to make user namespaces, which
ordinary users have on most machines.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.engines.kernel import CLONE_NEWUSER, unshare
from testbed.isolation.mounts import CLONE_NEWPID, join

_ALL_IDS = (1 << 32) - 1


def enter_namespaces_as(user: int, group: int, more: int) -> None:
    """Enters a new user namespace as root, and becomes that user both inside and outside."""
    with _two() as (here, there):

        def map_parent() -> None:
            here.close()
            if there.recv(1):  # otherwise making the namespace has failed
                _write_maps(os.getppid(), f"{user} {user} 1", f"{group} {group} 1")

        mapper = _forked(map_parent)  # stays outside: only from there can another user than its maker be mapped
        unshare(CLONE_NEWUSER | more)
        here.send(b".")
        _wait(mapper)
    os.setgroups([])
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)


@contextmanager
def owner_as(owner: tuple[int, int], user: int, group: int) -> Iterator[int]:
    """A user namespace, for `cloned`, that maps `owner` to the given user and group, and all others to themselves."""
    with _two() as (here, there):

        def hold_namespace() -> None:
            here.close()
            unshare(CLONE_NEWUSER)
            there.send(b".")
            there.recv(1)

        inside = _forked(hold_namespace)
        there.close()
        try:
            if here.recv(1):
                _write_maps(inside, _swapped(owner[0], user), _swapped(owner[1], group))
                namespace = os.open(f"/proc/{inside}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            here.close()
            _wait(inside)
    try:
        yield namespace
    finally:
        os.close(namespace)


def _swapped(inside: int, outside: int) -> str:
    """An id map from `inside` to `outside`; `outside` itself is unmapped, all other ids are unchanged."""
    if inside == outside:
        return f"0 0 {_ALL_IDS}"
    first, second = sorted((inside, outside))
    spans = [(0, first), (first + 1, second), (second + 1, _ALL_IDS)]
    same = [f"{begin} {begin} {end - begin}" for begin, end in spans if end > begin]
    return "\n".join([f"{inside} {outside} 1", *same])


@contextmanager
def _two() -> Iterator[tuple[socket.socket, socket.socket]]:
    here, there = socket.socketpair()
    with here, there:
        yield here, there


def _write_maps(process: int, users: str, groups: str) -> None:
    for kind, text in (("uid", users), ("gid", groups)):
        Path(f"/proc/{process}/{kind}_map").write_text(text)


def _forked(work: Callable[[], None]) -> int:
    """Forks a child that runs `work` and exits with its error number."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    except OSError as problem:
        status = problem.errno or 1
    finally:
        os._exit(status)


def _wait(child: int) -> None:
    number = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if number:
        raise OSError(number, f"making a namespace of users: {os.strerror(number)}")


class ProcessNamespaces:
    """Gives each child of the calling process a PID namespace of its own; the caller stays in its own."""

    def __init__(self) -> None:
        self._own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self._own)

    @contextmanager
    def another(self) -> Iterator[None]:
        """The next child forked within is the first of a new PID namespace: all that it starts ends with it."""
        unshare(CLONE_NEWPID)
        try:
            yield
        finally:
            join(self._own, CLONE_NEWPID)
