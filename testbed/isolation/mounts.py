"""System calls on mounts and namespaces that Python has no name for. Takes paths and descriptors; raises OSError."""

from __future__ import annotations

import ctypes
import os

from testbed.engines.kernel import checked, libc
from testbed.linux import open_flags

CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000

_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
_MS_REC, _MS_PRIVATE = 16384, 1 << 18
_MNT_DETACH = 2
_AT_FDCWD, _AT_RECURSIVE, _AT_EMPTY_PATH = -100, 0x8000, 0x1000
_OPEN_TREE_CLONE, _OPEN_TREE_CLOEXEC = 1, open_flags("O_CLOEXEC")
_MOVE_MOUNT_F_EMPTY_PATH = 4
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_IDMAP = 1, 0x00100000
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
"""The same on every architecture that Python supports under Linux, except Alpha."""
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}
_PLAIN = _MS_NOSUID | _MS_NODEV


class _Attributes(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def _call(name: str, number: int, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | object) -> int:
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return checked(libc().syscall(ctypes.c_long(number), *words), name)


def keep_mounts_private() -> None:
    """Stops mounts from propagating between this process's namespace and others."""
    flags = ctypes.c_ulong(_MS_REC | _MS_PRIVATE)
    checked(libc().mount(None, b"/", None, flags, None), "making mounts private")


def cloned(path: str, *, read_only: bool, owner: int | None = None) -> int:
    """Clones the mounts at a path and below; returns a descriptor to attach elsewhere.

    `owner` is a user namespace by which owners are mapped (an idmapped mount).
    """
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_RECURSIVE
    tree = _call(f"open_tree {path}", _OPEN_TREE, _AT_FDCWD, os.fsencode(path), flags)
    try:
        wanted = (_MOUNT_ATTR_RDONLY if read_only else 0) | (_MOUNT_ATTR_IDMAP if owner is not None else 0)
        if wanted:
            _set(tree, b"", _AT_EMPTY_PATH | _AT_RECURSIVE, wanted, owner or 0)
    except OSError:
        os.close(tree)
        raise
    return tree


def attach(tree: int, path: str) -> None:
    _call(f"move_mount {path}", _MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(path), _MOVE_MOUNT_F_EMPTY_PATH)


def make_read_only(path: str) -> None:
    """Makes the mount at that path read-only, but none below it."""
    _set(_AT_FDCWD, os.fsencode(path), 0, _MOUNT_ATTR_RDONLY, 0)


def _set(folder: int, path: bytes, flags: int, attributes: int, namespace: int) -> None:
    wanted = _Attributes(attributes, 0, 0, namespace)
    _call("mount_setattr", _MOUNT_SETATTR, folder, path, flags, ctypes.byref(wanted), ctypes.sizeof(wanted))


def mount_memory(path: str, options: str) -> None:
    """Mounts an empty tmpfs."""
    _mount("tmpfs", path, _PLAIN, options)


def mount_processes(path: str) -> None:
    """Mounts a /proc that shows only this process's PID namespace."""
    _mount("proc", path, _PLAIN | _MS_NOEXEC, "")


def _mount(kind: str, path: str, flags: int, options: str) -> None:
    arguments = (kind.encode(), os.fsencode(path), kind.encode(), ctypes.c_ulong(flags), options.encode() or None)
    checked(libc().mount(*arguments), f"mounting {kind} at {path}")


def pivot(folder: str) -> None:
    """Makes the mount at that folder the root of this process's namespace, and unmounts the old root."""
    number = _PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(0, f"no known way to change the root on {os.uname().machine}")
    os.chdir(folder)
    _call("pivot_root", number, b".", b".")
    checked(libc().umount2(b".", _MNT_DETACH), "leaving the old root")
    os.chdir("/")


def join(namespace: int, kind: int) -> None:
    """Enters the namespace of that descriptor."""
    checked(libc().setns(namespace, kind), "setns")
