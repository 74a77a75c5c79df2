"""TUN devices: makes and configures them by ioctl, and checks descriptors of unknown origin.

Takes names and values, gives descriptors; touches the network namespace of the calling process.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import struct

DEVICE = "eth0"
VNET_HEADER_BYTES = 10
MTU = 1500
QUEUE_LENGTH = 10_000
"""How many packets the device queues for the fabric; beyond that it drops silently."""

_TUNSETIFF = 0x400454CA
_TUNSETOFFLOAD = 0x400454D0
_TUNGETIFF = 0x800454D2
_TUNGETVNETHDRSZ = 0x800454D7
_TUNSETVNETHDRSZ = 0x400454D8
_IFF_TUN = 0x1
_IFF_TAP = 0x2
_IFF_MULTI_QUEUE = 0x100
_IFF_PERSIST = 0x800
_IFF_NO_PI = 0x1000
_IFF_VNET_HDR = 0x4000
_TUN_F_CSUM = 0x1
_TUN_F_TSO4 = 0x2
_TUN_MAJOR, _TUN_MINOR = 10, 200

_SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8913, 0x8914
_SIOCSIFADDR, _SIOCSIFNETMASK = 0x8916, 0x891C
_SIOCSIFMTU = 0x8922
_IFF_UP = 0x1

_NETMASK = "255.254.0.0"


class NotATun(ValueError):
    """A descriptor that the fabric refuses; the message says why."""


def open_device() -> int:
    """Opens a descriptor that can become a TUN device."""
    return os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def make_tun(descriptor: int) -> None:
    """Makes the descriptor a new TUN device whose packets have a vnet header and up to 64 KB."""
    flags = _IFF_TUN | _IFF_NO_PI | _IFF_VNET_HDR
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), flags))
    fcntl.ioctl(descriptor, _TUNSETVNETHDRSZ, struct.pack("i", VNET_HEADER_BYTES))
    set_offload(descriptor, super_segments=True)


def set_offload(descriptor: int, *, super_segments: bool) -> None:
    """Sets what the kernel leaves to the fabric: checksums, and TCP segmentation if wanted. Needs no privilege.

    UDP is never offloaded (UFO, USO): large datagrams come as fragments.
    """
    fcntl.ioctl(descriptor, _TUNSETOFFLOAD, _TUN_F_CSUM | (_TUN_F_TSO4 if super_segments else 0))


def configure(address: str, mtu: int) -> None:
    """Gives the device its address and brings it up."""
    name = DEVICE.encode()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFMTU, struct.pack("16si12x", name, mtu))
        for request, value in ((_SIOCSIFADDR, address), (_SIOCSIFNETMASK, _NETMASK)):
            packed = struct.pack("16sHH4s8x", name, socket.AF_INET, 0, socket.inet_aton(value))
            fcntl.ioctl(control, request, packed)
    bring_up(DEVICE)


def bring_up(device: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        asked = struct.pack("16s16x", device.encode())
        flags: int = struct.unpack("16sH14x", fcntl.ioctl(control, _SIOCGIFFLAGS, asked))[1]
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", device.encode(), flags | _IFF_UP))


def check_tun(descriptor: int) -> None:
    """Raises NotATun unless the descriptor is a TUN device as `make_tun` makes it; its sender is not trusted."""
    found = os.fstat(descriptor)
    if not stat.S_ISCHR(found.st_mode) or (os.major(found.st_rdev), os.minor(found.st_rdev)) != (
        _TUN_MAJOR,
        _TUN_MINOR,
    ):
        raise NotATun("the descriptor is not /dev/net/tun")
    try:
        flags: int = struct.unpack("16sH22x", fcntl.ioctl(descriptor, _TUNGETIFF, bytes(40)))[1]
        header_bytes: int = struct.unpack("i", fcntl.ioctl(descriptor, _TUNGETVNETHDRSZ, bytes(4)))[0]
    except OSError:
        raise NotATun("the descriptor is of no device") from None
    wanted = _IFF_TUN | _IFF_NO_PI | _IFF_VNET_HDR
    if flags & (wanted | _IFF_TAP | _IFF_MULTI_QUEUE | _IFF_PERSIST) != wanted:
        raise NotATun(f"the device has the wrong kind (flags {flags:#x})")
    if header_bytes != VNET_HEADER_BYTES:
        raise NotATun(f"its vnet header has {header_bytes} bytes, not {VNET_HEADER_BYTES}")
