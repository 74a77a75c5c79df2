"""Why frames are not carried: the names under which every data plane counts them.

Takes nothing, gives constants; touches nothing.
"""

from __future__ import annotations

from enum import StrEnum


class Unfit(StrEnum):
    """Why a frame is not carried."""

    MALFORMED = "malformed"
    IPV6 = "ipv6"
    FOREIGN_SOURCE = "foreign_source"
    """The sender claims another's address."""
    MULTICAST = "multicast"
    """Or broadcast."""
    UNKNOWN_DESTINATION = "unknown_destination"
    OVERSIZE = "oversize"
    """Larger than the MTU, and no super-segment."""
    OFFLOAD = "offload"
    """The kernel left something to be done that the fabric did not offer to do."""
