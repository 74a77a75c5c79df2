"""The fluid model of the network, including TCP, for runs in virtual time.

Takes a `Network` and messages, gives their times of arrival; touches nothing. It has no clock: the caller passes the
time to `Flows.advance`.

- `sharing`: how links are divided among the flows that are sending at an instant.
- `tcp`: how much a connection may send in a round trip, and how that grows and shrinks.
- `queues`: data queued before links: how long acknowledgements wait, and what is dropped.
- `routes`: the links that a pair of nodes uses, and their total properties.
- `connections`: the state of all connections as arrays.
- `messages`: what goes in and comes out.
- `draws`: losses and jitter, each draw named by what it is for.
- `model`: `Flows`, which puts them together and says what happens next.

Not modelled: the order of packets in a queue (flows share a link continuously instead of taking turns; the cost where
data fills both directions is a factor), delayed acknowledgements, and lost acknowledgements, unless all are lost.
"""

from __future__ import annotations

from testbed.network.flows.model import Flows
from testbed.network.flows.settings import BandwidthSharing, Tcp
from testbed.network.flows.transfers import Acknowledged, Delivered, Sent, Transfer

__all__ = ["Acknowledged", "BandwidthSharing", "Delivered", "Flows", "Sent", "Tcp", "Transfer"]
