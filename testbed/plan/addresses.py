"""Addresses in the emulated network: 198.18.0.0/15, reserved for benchmarks, so no LAN or VPN uses them.

Pure. Rank r has the (r+1)th address whose last byte is neither 0 nor 255, which some software takes for a network's or
a broadcast address: 198.18.0.1 … 198.18.0.254, 198.18.1.1 …
"""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address, IPv4Network

RANGE = IPv4Network("198.18.0.0/15")
_FIRST = int(RANGE.network_address)
_HOSTS = 254
MOST_ADDRESSES = 2 * 256 * _HOSTS


def address(rank: int) -> str:
    """The address of a node."""
    if not 0 <= rank < MOST_ADDRESSES:
        raise ValueError(f"there are {MOST_ADDRESSES} addresses, none for rank {rank}")
    block, host = divmod(rank, _HOSTS)
    return str(IPv4Address(_FIRST + block * 256 + host + 1))


def why_not_a_node(text: str) -> str | None:
    """Why this cannot be the address of a node; None if it can."""
    try:
        found = IPv4Address(text)
    except AddressValueError:
        return "is no IPv4 address"
    if found not in RANGE:
        return f"is outside of {RANGE}, which nodes' addresses are from"
    if found.packed[-1] in (0, 255):
        return "ends with 0 or 255, which some software takes for a network's or a broadcast's"
    return None
