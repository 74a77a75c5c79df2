"""Whether this is Linux, what other systems lack, and the error for commands that need Linux.

Takes names, gives answers; touches nothing. Virtual time, the topology tools and `collect` work without any of it.
"""

from __future__ import annotations

import os
import socket
import sys

from testbed.errors import PreflightRefused

NEED_LINUX = "processes with networks of their own need Linux"
HAS_LINUX = "a virtual machine with Linux has them, such as WSL 2 on Windows"


def is_linux() -> bool:
    return sys.platform.startswith("linux")


def has_unix_sockets() -> bool:
    """True except on Windows. The Docker Engine, and the control of its runs, are reached by UNIX sockets."""
    return hasattr(socket, "AF_UNIX")


def need_linux(what: str) -> PreflightRefused:
    """The error of a command, an option or a runtime that needs Linux."""
    return PreflightRefused(f"{what}: {NEED_LINUX}", f"{HAS_LINUX}; --runtime sim runs in virtual time, here too")


def open_flags(*names: str) -> int:
    """The flags of `os.open` that this system has, and binary mode."""
    flags = 0
    for name in (*names, "O_BINARY"):
        flags |= getattr(os, name, 0)
    return flags
