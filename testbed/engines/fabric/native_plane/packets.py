"""`NativePackets`: the compiled packet model. It is told the same as `network.packets.Packets`, and gives the same.

Takes a `Network`, offers and times, gives arrivals; touches nothing. What needs paths, names or keys of random streams
is worked out here, by the reference's own code, and the core gets arrays.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from testbed.engines.fabric.native_plane import abi
from testbed.engines.fabric.native_plane.library import core
from testbed.network.graph import Network
from testbed.network.normal_table import NORMAL
from testbed.network.packets import (
    DEFAULT_WINDOW_S,
    LONGEST_WINDOW_S,
    Arrival,
    Difference,
    LinkCounts,
    NetworkState,
    PairCounts,
    Routes,
    Snapshot,
    link_names,
    snapshot,
)
from testbed.seeds import derive


class NetworkArrays:
    """What a network is like, as the core reads it. The arrays live as long as this object."""

    def __init__(self, network: Network, seed: int, time_scale: float, routes: Routes | None) -> None:
        self._state = NetworkState(network, time_scale, routes)
        names = link_names(network)
        self._loss_keys = _keys(seed, "loss", names)
        self._jitter_keys = _keys(seed, "jitter", names)
        self._normal = np.array(NORMAL, dtype=np.int64)
        self._arrays: list[np.ndarray] = []
        """Of the latest change."""
        self._trees = self._routes()

    def setup(self, *, in_order: bool, time_scale: float, window_s: float, window_share: float) -> abi.ModelSetup:
        """Of a model; to be used while this object lives."""
        network = self._state.network
        whole = Difference(list(range(network.link_count)), has_new_paths=True, has_new_routes=True)
        return abi.ModelSetup(
            nodes=network.node_count,
            links=network.link_count,
            loss_keys=abi.address(self._loss_keys),
            jitter_keys=abi.address(self._jitter_keys),
            normal_table=abi.address(self._normal),
            window_s=window_s * time_scale,
            window_share=window_share,
            longest_window_s=max(window_s, LONGEST_WINDOW_S) * time_scale,
            time_scale=time_scale,
            in_order=in_order,
            first=ctypes.pointer(self._as_change(whole)),
        )

    def change(self, network: Network, routes: Routes | None) -> abi.Change:
        """The change from the network that there was; raises ValueError for another one."""
        return self._as_change(self._state.change(network, routes))

    def cut_off(self, ranks: Iterable[int]) -> abi.Change:
        return self._as_change(self._state.cut_off(ranks))

    def bring_back(self, ranks: Iterable[int]) -> abi.Change:
        return self._as_change(self._state.bring_back(ranks))

    def _as_change(self, difference: Difference) -> abi.Change:
        state, network = self._state, self._state.network
        lookahead_s, _ = state.lookahead_s()
        if difference.has_new_routes:
            self._trees = self._routes()
        is_cut = np.zeros(network.node_count, dtype=np.uint8)
        is_cut[list(state.cut)] = True
        links = np.array(difference.links, dtype=np.int32)
        wires = state.wires.rows(difference.links)
        ahead_s = np.array(lookahead_s, dtype=np.float64)[network.origin]
        to_end_s = state.wires.to_end_s()
        groups = np.array(network.partitions, dtype=np.int32)
        self._arrays = [is_cut, links, wires, ahead_s, to_end_s, groups]
        return abi.Change(
            changed=links.size,
            links=abi.address(links),
            wires=abi.address(wires),
            lookahead_s=abi.address(ahead_s),
            to_end_s=abi.address(to_end_s),
            has_new_paths=difference.has_new_paths,
            routes=ctypes.pointer(self._trees[0]) if difference.has_new_routes else None,
            partitions=len(network.partitions),
            groups=abi.address(groups),
            is_cut=abi.address(is_cut),
        )

    def _routes(self) -> tuple[abi.Routes, tuple[np.ndarray, ...]]:
        trees = self._state.routes.trees()
        count, vertices = trees.via.shape
        return abi.Routes(vertices, count, *(abi.address(array) for array in trees)), trees


def _keys(seed: int, purpose: str, links: Iterable[str]) -> np.ndarray:
    return np.array([derive(seed, "packets", purpose, name) for name in links], dtype=np.uint64)


class Model:
    """A model that the core has: what changes it, and what it has counted."""

    def __init__(self, pointer: int, network: NetworkArrays) -> None:
        self.pointer = pointer
        self._network = network

    def change(self, now_s: float, network: Network, routes: Routes | None = None) -> None:
        self._change(now_s, lambda: self._network.change(network, routes))

    def cut(self, now_s: float, *ranks: int) -> None:
        self._change(now_s, lambda: self._network.cut_off(ranks))

    def uncut(self, now_s: float, *ranks: int) -> None:
        self._change(now_s, lambda: self._network.bring_back(ranks))

    def _change(self, now_s: float, make: Callable[[], abi.Change]) -> None:
        before_s = self.now_s
        if now_s < before_s:  # the core would keep the arrays that a change replaces
            check_time(abi.BACKWARDS, now_s, before_s)
        core().core_model_change(self.pointer, now_s, make())

    @property
    def now_s(self) -> float:
        now_s: float = self.totals().now_s
        return now_s

    def next_s(self) -> float:
        found: float = core().core_model_next(self.pointer)
        return found

    def totals(self) -> abi.Totals:
        found = abi.Totals()
        core().core_model_totals(self.pointer, found)
        return found

    def links(self) -> LinkCounts:
        """Of every link in use so far. The longest waits begin anew."""
        rows = np.empty(self.totals().used_links, dtype=abi.LINK_COUNTS)
        core().core_model_links(self.pointer, abi.address(rows))
        return LinkCounts(**{name: np.ascontiguousarray(rows[name]) for name in abi.LINK_COUNTS.names or ()})

    def pairs(self) -> PairCounts:
        rows = np.empty(self.totals().pairs, dtype=abi.PAIR_COUNTS)
        core().core_model_pairs(self.pointer, abi.address(rows))
        return PairCounts(**{name: np.ascontiguousarray(rows[name]) for name in abi.PAIR_COUNTS.names or ()})

    def snapshot(self) -> Snapshot:
        totals = self.totals()
        return snapshot(totals.now_s, self.links(), self.pairs(), no_path=totals.no_path, taken=totals.taken)

    def release(self) -> None:
        """Forgets segments of which some pieces were dropped and all others have arrived."""
        core().core_model_release(self.pointer)


class NativePackets(Model):
    """Packets under way in one network. Times never go backwards: neither of offers nor of advances."""

    def __init__(
        self,
        network: Network,
        *,
        seed: int,
        in_order: bool = True,
        time_scale: float = 1.0,
        window_s: float = DEFAULT_WINDOW_S,
        window_share: float = 0.0,
        routes: Routes | None = None,
    ) -> None:
        self._core = core()
        arrays = NetworkArrays(network, seed, time_scale, routes)
        setup = arrays.setup(in_order=in_order, time_scale=time_scale, window_s=window_s, window_share=window_share)
        super().__init__(self._core.core_model_new(setup), arrays)

    def __del__(self) -> None:
        if hasattr(self, "pointer"):
            self._core.core_model_free(self.pointer)

    def offer(self, now_s: float, origin: int, dest: int, sizes: Sequence[int]) -> int | None:
        array = np.array(sizes, dtype=np.uint32)
        found = self._core.core_model_offer(self.pointer, now_s, origin, dest, abi.address(array), array.size)
        return _segment(found, now_s, self.now_s, (origin, dest))

    def take(
        self, link: int, origin: int, dest: int, sizes: Sequence[int], pieces: Sequence[int], times_s: Sequence[float]
    ) -> int | None:
        numbers = np.array(pieces, dtype=np.uint32)
        size_of = np.array([sizes[piece] for piece in pieces], dtype=np.uint32)
        times = np.array(times_s, dtype=np.float64)
        found = self._core.core_model_take(
            self.pointer,
            link,
            origin,
            dest,
            len(sizes),
            abi.address(numbers),
            abi.address(size_of),
            abi.address(times),
            times.size,
        )
        return _segment(found, min(times_s, default=0.0), self.now_s, (origin, dest))

    def advance(self, to_s: float) -> list[Arrival]:
        now_s = self.now_s
        count = self._core.core_model_advance(self.pointer, to_s)
        check_time(count, to_s, now_s)
        groups = self._core.core_model_groups(self.pointer)
        pieces = self._core.core_model_group_pieces(self.pointer)
        found = [
            Arrival(
                segment=group.segment,
                origin=group.origin,
                dest=group.dest,
                due_s=group.due_s,
                pieces=tuple(pieces[group.first : group.first + group.pieces]),
                latency_s=group.latency_s,
            )
            for group in groups[:count]
        ]
        self._core.core_model_forget_groups(self.pointer)
        return found


def _segment(found: int, at_s: float, now_s: float, ranks: tuple[int, int]) -> int | None:
    if found == abi.BAD_RANK:
        raise ValueError(f"no ranks of this network: {ranks[0]}, {ranks[1]}")
    if found == abi.NO_PATH:
        return None
    check_time(found, at_s, now_s)
    return found


def check_time(found: int, at_s: float, now_s: float) -> None:
    """Raises ValueError where the core has found that a time is past."""
    if found == abi.BACKWARDS:
        raise ValueError(f"time went backwards, from {now_s} s to {at_s} s")
