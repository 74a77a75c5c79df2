"""The fluid model of the network, with TCP in it: what a run in virtual time goes over.

Takes a `Network` and messages, gives when they arrive; touches nothing. No clock runs here: time is what
`Flows.advance` is told.

- `sharing`: how links are divided among the flows that are sending at an instant.
- `tcp`: how much a connection may send in a round trip, and how that grows and shrinks.
- `queues`: what stands before links: how long acknowledgements wait there, and what is dropped.
- `routes`: which links a pair of nodes uses, and what they add up to.
- `connections`: the state of all connections as arrays.
- `messages`: what goes in and comes out.
- `draws`: losses and jitter, each draw named by what it is for.
- `model`: `Flows`, which puts them together and says what happens next.

What it leaves out: the order of what stands in a queue (flows share a link all the time instead of taking turns; what
that costs where data fills both ways is in it as a factor), delayed acknowledgements, and acknowledgements that are
lost, unless all of them are.
"""

from __future__ import annotations

from testbed.network.flows.model import Flows
from testbed.network.flows.settings import BandwidthSharing, Tcp
from testbed.network.flows.transfers import Acknowledged, Delivered, Sent, Transfer

__all__ = ["Acknowledged", "BandwidthSharing", "Delivered", "Flows", "Sent", "Tcp", "Transfer"]
