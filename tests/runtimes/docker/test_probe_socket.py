"""A probe socket that cannot be made: whether volumes would solve that."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from testbed.errors import PreflightRefused
from testbed.runtimes.containers.reachability import Unreached
from testbed.runtimes.docker.start import listen_for_first_container


@pytest.mark.parametrize(
    ("number", "helps"),
    [
        (errno.ENOTSUP, True),
        (errno.EINVAL, True),
        (errno.EPERM, True),  # as FAT says
        (errno.EACCES, False),
        (errno.ENOSPC, False),
        (errno.EROFS, False),
    ],
)
def test_volumes_are_for_where_there_are_no_sockets(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch, *, helps: bool
) -> None:
    def bind(_socket: socket.socket, _path: str) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket.socket, "bind", bind)
    with pytest.raises(PreflightRefused, match=os.strerror(number)) as refused, listen_for_first_container(tmp_path):
        pass
    assert isinstance(refused.value, Unreached) is helps
    assert ("--sockets volume" in refused.value.hint) is helps
