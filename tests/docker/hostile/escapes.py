"""Tries to get out: to the host, the Engine, the Internet, other containers' files, and to more than it may do.

Every attempt is a note in the journal: why it was denied, or that it was not.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import struct
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from testbed.node.node import Node

DENIED, DONE = "denied", "NOT DENIED"
_WAIT_S = 0.5
_CLONE_NEWUSER, _CLONE_NEWNET, _CLONE_NEWNS = 0x10000000, 0x40000000, 0x20000
_PTRACE_ATTACH = 16
_TUNSETIFF, _IFF_TUN = 0x400454CA, 0x1
_SIOCSIFADDR, _SIOCSIFMTU = 0x8916, 0x8922
_IP_FREEBIND, _IP_TRANSPARENT = 15, 19
_PIDFD_OPEN, _PIDFD_GETFD = 434, 438
_libc = ctypes.CDLL(None, use_errno=True)


async def act(node: Node, round_: int, told: Mapping[str, object]) -> None:
    if round_ != 0:
        return
    for name, attempt in attempts(node, told).items():
        try:
            attempt()
        except OSError as problem:
            node.note("escape", f"{name}: {DENIED}: {problem.strerror or problem}")
        else:
            node.note("escape", f"{name}: {DONE}")


def attempts(node: Node, told: Mapping[str, object]) -> dict[str, Callable[[], object]]:
    port = int(str(told["port"]))
    hosts = [each for each in str(told["hosts"]).split(",") if each]
    found: dict[str, Callable[[], object]] = {}
    for host in ("127.0.0.1", "172.17.0.1", "169.254.169.254", "192.0.2.1", *hosts):
        found[f"tcp {host}"] = partial(_tcp, socket.AF_INET, host, port)
        if not host.startswith("127."):  # to itself it may say what it likes
            found[f"udp {host}"] = partial(_udp, host, port)
    for host in ("::1", "2001:db8::1", "fe80::1"):
        found[f"tcp {host}"] = partial(_tcp, socket.AF_INET6, host, port)
    found["abstract socket"] = partial(_unix, "\0" + str(told["abstract"]))
    for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock"):
        found[path] = partial(_unix, path)
    found |= {
        "raw socket": partial(socket.socket, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
        "packet socket": partial(socket.socket, socket.AF_PACKET, socket.SOCK_RAW),
        "another tun": partial(_tun, b"tun1"),
        "its own tun": partial(_tun, b"eth0"),
        "another address": partial(_ioctl, _SIOCSIFADDR, "16sHH4s8x", b"eth0", socket.AF_INET, 0, b"\xc6\x12\0\x09"),
        "another mtu": partial(_ioctl, _SIOCSIFMTU, "16si12x", b"eth0", 9000),
        "another's address": partial(_from, node.plan.addresses[node.others[0]]),
        "transparent": partial(_from, "192.0.2.7", _IP_TRANSPARENT),
        "freebind": partial(_from, "192.0.2.7", _IP_FREEBIND),
        "mount": partial(_call, "mount", b"none", b"/tmp", b"tmpfs", 0, None),
        "umount": partial(_call, "umount2", b"/testbed/node/plan.json", 2),
        "user namespace": partial(_call, "unshare", _CLONE_NEWUSER),
        "network namespace": partial(_call, "unshare", _CLONE_NEWNET),
        "mount namespace": partial(_call, "unshare", _CLONE_NEWNS),
        "host name": partial(_call, "sethostname", b"x", 1),
        "chroot": partial(os.chroot, "/tmp"),  # noqa: S108
        "device": partial(os.mknod, "/tmp/disk", 0o600 | 0o060000, os.makedev(254, 0)),  # noqa: S108
        "another user": _become_another,
        "ptrace": partial(_call, "ptrace", _PTRACE_ATTACH, 1, 0, 0),
        "memory of process 1": partial(os.open, "/proc/1/mem", os.O_RDWR),
        "environment of process 1": partial(_read, "/proc/1/environ"),
        "descriptors of process 1": partial(os.readlink, "/proc/1/fd/0"),
        "a descriptor of process 1": _take_descriptor,
        "sysctl": partial(_write, "/proc/sys/net/ipv4/ip_forward"),
        "sysrq": partial(_write, "/proc/sysrq-trigger"),
        "cgroup": partial(_write, "/sys/fs/cgroup/memory.max"),
        "cgroup, as it used to be": partial(_write, "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        "own plan": partial(_write, "/testbed/node/plan.json"),
        "own plan away": partial(os.rename, "/testbed/node/plan.json", "/testbed/node/x"),
        "own plan gone": partial(os.unlink, "/testbed/node/plan.json"),
        "a slot": partial(_write, "/testbed/slots/slot-0"),
        "a slot's time": partial(os.utime, "/testbed/slots/slot-0", (1, 1)),
        "a slot's mode": partial(os.chmod, "/testbed/slots/slot-0", 0o777),
        "a slot gone": partial(os.unlink, "/testbed/slots/slot-0"),
        "others' results": partial(os.listdir, "/testbed/run"),
        "results": partial(os.listdir, "/testbed/results"),
        "others' sockets": partial(os.listdir, "/testbed/sockets/../nodes"),
        "control's sockets": partial(_unix, "/testbed/sockets/commands.sock"),
        "the fabric's control": partial(_unix, "/testbed/sockets/../fabric.sock"),
    }
    for folder in (
        "/",
        "/etc",
        "/opt/testbed",
        "/opt/testbed/algorithms",
        "/testbed",
        "/testbed/data",
        "/testbed/slots",
        "/usr/lib",
    ):
        found[f"write to {folder}"] = partial(_write, f"{folder}/x", os.O_CREAT)
    return found | {"what else is there": _look_around}


def _tcp(family: int, host: str, port: int) -> None:
    with socket.socket(family) as made:
        made.settimeout(_WAIT_S)
        made.connect((host, port))


def _udp(host: str, port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.sendto(b"out", (host, port))


def _unix(path: str) -> None:
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        with socket.socket(socket.AF_UNIX, kind) as made:
            made.connect(path)


def _tun(name: bytes) -> None:
    descriptor = os.open("/dev/net/tun", os.O_RDWR)
    try:
        fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", name, _IFF_TUN))
    finally:
        os.close(descriptor)


def _ioctl(request: int, form: str, *values: object) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        fcntl.ioctl(made, request, struct.pack(form, *values))


def _from(address: str, option: int | None = None) -> None:
    """A packet that says it comes from there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        if option is not None:
            made.setsockopt(socket.IPPROTO_IP, option, 1)
        made.bind((address, 0))
        made.sendto(b"forged", ("198.18.0.1", 5))


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _become_another() -> None:
    os.setuid(65_534 if os.getuid() == 0 else 0)


def _take_descriptor() -> None:
    process = _libc.syscall(_PIDFD_OPEN, 1, 0)
    try:
        if _libc.syscall(_PIDFD_GETFD, process, 0, 0) == -1:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(process)


def _read(path: str) -> bytes:
    return Path(path).read_bytes()


def _write(path: str, more: int = 0) -> None:
    descriptor = os.open(path, os.O_WRONLY | more, 0o600)
    os.close(descriptor)


def _look_around() -> None:
    """Raises when all that it finds is its own: then there is nowhere to go."""
    os.kill(1, signal.SIGKILL)  # which process 1 does not feel from in here
    own = {"control.sock", "supervisor.sock", "fabric.sock"}
    others = {each for each in os.listdir("/testbed/sockets") if each not in own}
    others |= set(os.listdir("/testbed")) - {"data", "node", "slots", "sockets"}
    others |= {each for each in os.listdir("/proc") if each.isdecimal()} - {"1", str(os.getpid())}
    devices = Path("/proc/net/dev").read_text().splitlines()[2:]
    others |= {line.split(":")[0].strip() for line in devices} - {"lo", "eth0"}
    if not others:
        raise OSError(0, "nothing but its own")
    raise RuntimeError(f"it found {sorted(others)}")
