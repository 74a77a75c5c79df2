"""Changes of the network, and frames from elsewhere: what all data planes over a packet model do alike.

Takes times by the host's clock, gives them to the model by its own; touches nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from testbed.engines.fabric.data_plane import UnderWay
from testbed.network.graph import Network
from testbed.network.packets import Routes


class _Model(Protocol):
    @property
    def now_s(self) -> float: ...

    def change(self, now_s: float, network: Network, routes: Routes | None = None) -> None: ...

    def cut(self, now_s: float, *ranks: int) -> None: ...

    def uncut(self, now_s: float, *ranks: int) -> None: ...


class _Forwarder(Protocol):
    def take(self, origin: int, data: bytes, link: int, pieces: Sequence[int], times_s: Sequence[float]) -> bool: ...


class ModelledNetwork:
    """The part of a `DataPlane` that concerns the network."""

    _packets: _Model
    _forwarder: _Forwarder
    _began_s: float
    """The packet model's times are since then."""

    def change(self, at_s: float, network: Network, routes: Routes | None = None) -> float:
        now_s = self._model_s(at_s)
        self._packets.change(now_s, network, routes)
        return now_s + self._began_s

    def cut(self, at_s: float, ports: Collection[int]) -> float:
        now_s = self._model_s(at_s)
        self._packets.cut(now_s, *ports)
        return now_s + self._began_s

    def uncut(self, at_s: float, ports: Collection[int]) -> float:
        now_s = self._model_s(at_s)
        self._packets.uncut(now_s, *ports)
        return now_s + self._began_s

    def take(self, frame: UnderWay) -> bool:
        times_s = [time_s - self._began_s for time_s in frame.times_s]
        return self._forwarder.take(frame.origin, frame.data, frame.link, frame.pieces, times_s)

    def _model_s(self, at_s: float) -> float:
        """Packets have been carried up to `now_s`: what was to happen before that happens then."""
        return max(at_s - self._began_s, self._packets.now_s)
