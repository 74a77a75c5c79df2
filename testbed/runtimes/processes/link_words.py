"""What people change of links, in words, for control's log. Pure."""

from __future__ import annotations

from testbed.control.change_words import properties
from testbed.control.commands import Flap
from testbed.protocol.fabric import ResetLink, SetLink
from testbed.units import UNLIMITED, format_latency, format_rate, format_size


def ends(command: SetLink | ResetLink | Flap) -> str:
    """Such as `link a <-> hub`."""
    if command.origin is None or command.dest is None:
        return "all links"
    return f"link {command.origin} {'<->' if command.both else '->'} {command.dest}"


def wanted(change: SetLink) -> str:
    """Such as `latency 50ms, loss 1%`."""
    said = properties(change.up, change)
    if change.queue_ms is not None:
        said.append("no queue limit" if change.queue_ms == UNLIMITED else f"queue {format_latency(change.queue_ms)}")
    if change.queue_bytes is not None and change.queue_bytes != UNLIMITED:
        said.append(f"queue {format_size(int(change.queue_bytes))}")
    if change.background_bps is not None:
        said.append(f"background {format_rate(change.background_bps)}")
    return ", ".join(said)
