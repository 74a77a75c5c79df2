"""System calls that Python has no function for. Takes numbers, gives numbers; raises OSError as `os` does."""

from __future__ import annotations

import ctypes
import os
import struct
from contextlib import suppress
from functools import cache

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000

_CLOCK_MONOTONIC = 1
_TFD_TIMER_ABSTIME = 1
_NANOSECONDS = 1_000_000_000

_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_PR_CAP_AMBIENT_RAISE = 2
CAP_NET_ADMIN, CAP_NET_RAW = 12, 13
_CAPABILITY_VERSION = 0x20080522
_MOST_CAPABILITIES = 64

_NICE = -15
_AUTOGROUP = "/proc/self/autogroup"
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}


@cache
def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def checked(result: int, what: str) -> int:
    """Returns the result of a call; raises OSError if it failed."""
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    """Moves the calling process into new namespaces."""
    checked(libc().unshare(ctypes.c_int(flags)), "unshare")


def enter_user_namespace(more: int) -> None:
    """Enters a new user namespace, and new ones of the kinds `more`, with all capabilities until they are dropped.

    User and group stay the same. The process must have one thread.
    """
    user, group = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER | more)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _prctl(option: int, *arguments: int) -> int:
    padded = [ctypes.c_ulong(each) for each in (*arguments, 0, 0, 0, 0)[:4]]
    return checked(libc().prctl(ctypes.c_int(option), *padded), "prctl")


def empty_bounding_set() -> None:
    """Empties the bounding set: no program started from now on can gain a capability."""
    for capability in range(_MOST_CAPABILITIES):
        try:
            _prctl(_PR_CAPBSET_DROP, capability)
        except OSError:
            if capability == 0:
                raise
            return  # the kernel has no more capabilities


def no_new_privileges() -> None:
    """No program started from now on gains privileges by being set-uid."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def keep_to_itself() -> None:
    """Keeps other processes of the same user from inspecting or tracing this one and those that it forks."""
    _prctl(_PR_SET_DUMPABLE, 0)


def let_owner_look() -> None:
    """Lets its user inspect this process and its /proc files again, which changing the user had forbidden."""
    _prctl(_PR_SET_DUMPABLE, 1)


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapabilityData(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def drop_capabilities() -> None:
    """Drops all capabilities for good."""
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = _CapabilityHeader(_CAPABILITY_VERSION, 0)
    nothing = (_CapabilityData * 2)()
    checked(libc().capset(ctypes.byref(header), nothing), "capset")


def pass_on(*capabilities: int) -> None:
    """Programs that this process starts inherit these capabilities, which it must have itself."""
    header, data = _CapabilityHeader(_CAPABILITY_VERSION, 0), (_CapabilityData * 2)()
    checked(libc().capget(ctypes.byref(header), data), "capget")
    for each in capabilities:
        data[each // 32].inheritable |= 1 << each % 32
    checked(libc().capset(ctypes.byref(header), data), "capset")
    for each in capabilities:
        _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, each)


_SLICE_NS = 100_000
_ATTRIBUTES = struct.Struct("=IIQiIQQQII")


def raise_open_file_limit() -> None:
    """Lets this process and all that it starts open as many files as an ordinary user may."""
    import resource  # not on Windows, where virtual time imports this module

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def be_quick() -> None:
    """Gives the process a higher scheduling priority, as far as this kernel and its rights allow.

    Any process may ask for shorter time slices: the scheduler runs those with shorter slices sooner.
    """
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    if os.getsid(0) == os.getpid():
        # Between sessions only the session's niceness counts, and this process is alone in its own.
        with suppress(OSError), open(_AUTOGROUP, "w") as file:
            file.write(str(_NICE))
    number = _SCHED_SETATTR.get(os.uname().machine)
    if number is not None:
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        attributes = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, _SLICE_NS, 0, 0, 0, 0)
        libc().syscall(ctypes.c_long(number), 0, attributes, 0)


class _TimeSpec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _TimerSpec(ctypes.Structure):
    _fields_ = (("interval", _TimeSpec), ("value", _TimeSpec))


class Timer:
    """A timerfd on CLOCK_MONOTONIC; epoll's own timeout of milliseconds is a thousand times too coarse."""

    def __init__(self) -> None:
        flags = os.O_NONBLOCK | os.O_CLOEXEC
        self.descriptor = checked(libc().timerfd_create(_CLOCK_MONOTONIC, flags), "timerfd_create")
        self._spec = _TimerSpec()
        self._pointer = ctypes.byref(self._spec)
        self._set = libc().timerfd_settime

    def arm(self, monotonic_s: float) -> None:
        """Makes the descriptor readable once at that time, or now if it is past; replaces an earlier time."""
        seconds, nanoseconds = divmod(max(1, int(monotonic_s * _NANOSECONDS)), _NANOSECONDS)
        self._spec.value.seconds = seconds
        self._spec.value.nanoseconds = nanoseconds
        checked(self._set(self.descriptor, _TFD_TIMER_ABSTIME, self._pointer, None), "timerfd_settime")

    def clear(self) -> None:
        """Makes the descriptor unreadable until it is armed again."""
        try:
            os.read(self.descriptor, 8)
        except BlockingIOError:
            return

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
