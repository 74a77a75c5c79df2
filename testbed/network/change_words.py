"""A change of the network in words, such as `link a -> hub: latency 20ms`.

Takes a change of the timeline, gives one line for the event log; touches nothing. Both the fabric and virtual time use
these words where they apply the change.
"""

from __future__ import annotations

from typing import Protocol

from testbed.network.timeline import BridgeChange, LinksChange, PartitionChange
from testbed.units import format_latency, format_loss, format_rate


def words(change: LinksChange | BridgeChange | PartitionChange) -> str:
    """One line that names the link, bridge or partition and its new state."""
    match change:
        case BridgeChange():
            return f"bridge {change.bridge}: {'up' if change.up else 'down'}"
        case PartitionChange():
            return f"partition {change.number} {'begins' if change.begins else 'ends'}"
        case LinksChange():
            return f"link {change.origin} -> {change.dest}: {', '.join(properties(change.up, change.change))}"


class Properties(Protocol):
    """New properties of a link; None leaves one unchanged."""

    @property
    def latency_ms(self) -> float | None: ...

    @property
    def jitter_ms(self) -> float | None: ...

    @property
    def loss(self) -> float | None: ...

    @property
    def rate_bps(self) -> float | None: ...


def properties(up: bool | None, change: Properties) -> list[str]:
    """The properties that change, such as `latency 20ms`."""
    said = []
    if up is not None:
        said.append("up" if up else "down")
    if change.latency_ms is not None:
        said.append(f"latency {format_latency(change.latency_ms)}")
    if change.jitter_ms is not None:
        said.append(f"jitter {format_latency(change.jitter_ms)}")
    if change.loss is not None:
        said.append(f"loss {format_loss(change.loss)}")
    if change.rate_bps is not None:
        said.append(f"rate {format_rate(change.rate_bps)}")
    return said
