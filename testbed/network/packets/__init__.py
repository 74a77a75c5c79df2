"""The packet model of the network: what the fabric runs.

Takes a `Network` and packets, gives when each arrives and which are dropped; touches nothing. No clock runs here: time
is what `Packets.offer` and `Packets.advance` are told.

- `wire`: what a directed link does to packets, in seconds, at the time scale of the run.
- `link`: one link with its queue; drops, draws losses and jitter, counts.
- `train`: pieces of one segment on their way together, and the flow they belong to.
- `ends`: pieces at the end of their last link, until they are handed over.
- `network_state`: what the network is like now, without its packets.
- `routes`: which links a pair of nodes uses, and whether they still hold after a change.
- `retime`: what becomes of the packets in a queue when its link changes.
- `counters`: what links and pairs have carried and dropped, as arrays.
- `model`: `Packets`, which puts them together.

How a link works. A piece that finds more in the queue than the limit (what waits ahead, as time at the link's rate) is
dropped. Else it leaves when what is ahead and the piece itself have been sent; then it may be lost, after it has used
the rate; then it travels for the latency, give or take a normally distributed jitter that is drawn for every piece and
never makes the whole less than nothing. Jitter keeps a flow (an ordered pair of nodes) in order, by making a piece that
would overtake arrive with the one before; pieces closer together than the jitter are thereby later than the mean.
Background traffic is a fluid: it takes its share of the rate, and packets queue behind it when they queue at all.

Pieces are carried in exactly the order in which they reach a link, at equal times by the rank of the origin and then
as they were offered. How pieces are grouped into segments and when `advance` is called changes no time and no draw.

A change of the network is applied to the packets in queues at its time: they leave at the new rate, take the new
latency and may be dropped by a loss that is now greater (a smaller loss saves none that is already marked as lost).
What is past the queue travels on as it was. A link that goes down drops what is in its queue and whatever reaches it;
a partition stops what is offered and nothing that is under way.
When a latency changes or a route moves, later packets may overtake those on their way.
"""

from __future__ import annotations

from testbed.network.packets.counters import LinkCounts, PairCounts, Snapshot, Times, snapshot
from testbed.network.packets.model import DEFAULT_WINDOW_S, LONGEST_WINDOW_S, Arrival, Packets
from testbed.network.packets.network_state import Difference, NetworkState
from testbed.network.packets.routes import Routes
from testbed.network.packets.wire import WIRE_ROW, link_names

__all__ = [
    "DEFAULT_WINDOW_S",
    "LONGEST_WINDOW_S",
    "WIRE_ROW",
    "Arrival",
    "Difference",
    "LinkCounts",
    "NetworkState",
    "Packets",
    "PairCounts",
    "Routes",
    "Snapshot",
    "Times",
    "link_names",
    "snapshot",
]
