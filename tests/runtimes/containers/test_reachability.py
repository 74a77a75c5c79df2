"""The reachability probe: whether sockets cannot be reached, or the error is one that volumes do not solve."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from testbed.errors import ExitCode, PreflightRefused
from testbed.runtimes.containers.container_paths import ContainerPaths
from testbed.runtimes.containers.reachability import PROBE_FIRST, Unreached, probe

OVER_THERE = (
    errno.ECONNREFUSED,
    errno.ENOENT,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.EINVAL,
    errno.ENXIO,
    errno.ETIMEDOUT,
)


@pytest.fixture
def inside(tmp_path: Path) -> ContainerPaths:
    made = ContainerPaths(tmp_path)
    made.run.path.mkdir()
    made.run.plan.touch()
    return made


def fails_with(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(_socket: socket.socket, _path: str) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket.socket, "connect", connect)


@pytest.mark.parametrize("number", OVER_THERE)
def test_sockets_that_do_not_reach_over(inside: ContainerPaths, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fails_with(number, monkeypatch)
    with pytest.raises(Unreached, match="cannot reach sockets") as refused:
        probe(inside)
    assert "--sockets volume" in refused.value.hint


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EMFILE])
def test_what_volumes_would_not_mend(inside: ContainerPaths, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fails_with(number, monkeypatch)
    with pytest.raises(PreflightRefused, match=os.strerror(number)) as refused:
        probe(inside)
    assert not isinstance(refused.value, Unreached)
    assert "is the Docker Engine rootless" in refused.value.hint


def test_files_that_are_not_shared(inside: ContainerPaths) -> None:
    inside.run.plan.unlink()
    with pytest.raises(PreflightRefused, match="do not see what is in the folder") as refused:
        probe(inside)
    assert not isinstance(refused.value, Unreached)


def test_who_may_not_even_look(
    inside: ContainerPaths, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Containers of a rootless Docker Engine have another user, and the folder may be closed to others."""
    from testbed.runtimes.containers import __main__ as module
    from testbed.runtimes.containers import container_paths as paths_module

    def denied(_path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "exists", denied)
    monkeypatch.setattr(paths_module, "ContainerPaths", lambda: inside)
    monkeypatch.setenv(PROBE_FIRST, "1")
    assert module._control() == ExitCode.REFUSED
    said, hint = capsys.readouterr().out.splitlines()
    assert said == "Error: containers cannot reach sockets in the folder of results: Permission denied"
    assert "is the Docker Engine rootless" in hint
