"""`NativeForwarder`: frames over the compiled model. It is told the same as the Python plane's, and gives the same.

Takes frames and times, gives what is to be written when; touches nothing. A run's data plane needs it only for what
other hosts hand over; tests hold it against the Python one.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from testbed.engines.fabric.data_plane import MOST_HELD_BYTES
from testbed.engines.fabric.deliveries import TOGETHER, Delivery, Wait
from testbed.engines.fabric.native_plane import abi
from testbed.engines.fabric.native_plane.library import core
from testbed.engines.fabric.native_plane.packets import Model, NetworkArrays, check_time
from testbed.network.graph import Network
from testbed.network.packets import DEFAULT_WINDOW_S

_NUMBERS = 1 << 32
"""Of pieces, as the core reads them."""


class ForwarderArrays:
    """What a forwarder is made of, as the core reads it. The arrays live as long as this object."""

    def __init__(
        self,
        network: Network,
        addresses: Sequence[bytes],
        *,
        seed: int,
        mtu: int,
        in_order: bool,
        time_scale: float,
        most_held_bytes: int,
        most_held_of_one_bytes: int,
    ) -> None:
        self.network = NetworkArrays(network, seed, time_scale, None)
        self.count = len(addresses)
        self._addresses = np.frombuffer(b"".join(addresses), dtype=np.uint32)
        model = self.network.setup(
            in_order=in_order, time_scale=time_scale, window_s=DEFAULT_WINDOW_S, window_share=TOGETHER
        )
        self.setup = abi.ForwarderSetup(
            model=ctypes.pointer(model),
            addresses=abi.address(self._addresses),
            mtu=mtu,
            most_held_bytes=most_held_bytes,
            most_held_of_one_bytes=most_held_of_one_bytes,
        )


class CoreForwarder:
    """All frames between the nodes of one network, as a forwarder has them that the core has made."""

    def __init__(self, pointer: int, arrays: ForwarderArrays) -> None:
        self._core = core()
        self._pointer = pointer
        self._arrays = arrays
        self.packets = Model(self._core.core_forwarder_model(pointer), arrays.network)
        self.release = self.packets.release

    @property
    def unfit(self) -> list[Counter[str]]:
        """By rank of the sender, why frames of its were not carried."""
        counts = (ctypes.c_int64 * len(abi.UNFIT))()
        found = []
        for rank in range(self._arrays.count):
            self._core.core_forwarder_unfit(self._pointer, rank, counts)
            found.append(Counter(named_unfit(counts)))
        return found

    @property
    def held(self) -> int:
        """Frames on their way."""
        held: int = self.packets.totals().held_segments
        return held

    @property
    def held_bytes(self) -> int:
        held: int = self.packets.totals().held_bytes
        return held

    def offer(self, now_s: float, origin: int, data: bytes, since_s: float | None = None) -> Wait | None:
        wait = (ctypes.c_double * 3)()
        since_s = now_s if since_s is None else since_s
        found = self._core.core_forwarder_offer(self._pointer, now_s, origin, data, len(data), since_s, wait)
        check_time(found, now_s, self.packets.now_s)
        return (wait[0], wait[1], wait[2]) if found else None

    def take(self, origin: int, data: bytes, link: int, pieces: Sequence[int], times_s: Sequence[float]) -> bool:
        is_sound = len(pieces) == len(times_s) and all(0 <= piece < _NUMBERS for piece in pieces)
        numbers = np.array(pieces if is_sound else [], dtype=np.uint32)
        times = np.array(times_s, dtype=np.float64)
        count = times.size if is_sound else -1  # which the core finds malformed
        found = self._core.core_forwarder_take(
            self._pointer, origin, data, len(data), link, abi.address(numbers), abi.address(times), count
        )
        return bool(found)

    def advance(self, now_s: float) -> Iterator[Delivery]:
        found: list[Delivery] = []

        def sink(_: object, delivery: ctypes._Pointer[abi.Delivery]) -> None:
            each = delivery.contents
            head = ctypes.string_at(each.head, each.head_bytes)
            tail = ctypes.string_at(each.tail, each.tail_bytes) if each.tail_bytes else b""
            found.append(
                Delivery(each.dest, each.due_s, (head, memoryview(tail)), each.packets, each.size_bytes, each.latency_s)
            )

        check_time(
            self._core.core_forwarder_advance(self._pointer, now_s, abi.SINK(sink), None), now_s, self.packets.now_s
        )
        return iter(found)


class NativeForwarder(CoreForwarder):
    """One that is its own, for frames without devices."""

    def __init__(
        self,
        network: Network,
        addresses: Sequence[bytes],
        *,
        seed: int,
        mtu: int,
        in_order: bool = True,
        time_scale: float = 1.0,
        most_held_bytes: int = MOST_HELD_BYTES,
        most_held_of_one_bytes: int = MOST_HELD_BYTES // 4,
    ) -> None:
        arrays = ForwarderArrays(
            network,
            addresses,
            seed=seed,
            mtu=mtu,
            in_order=in_order,
            time_scale=time_scale,
            most_held_bytes=most_held_bytes,
            most_held_of_one_bytes=most_held_of_one_bytes,
        )
        super().__init__(core().core_forwarder_new(arrays.setup), arrays)

    def __del__(self) -> None:
        if hasattr(self, "_pointer"):
            self._core.core_forwarder_free(self._pointer)


def named_unfit(counts: Iterable[int]) -> dict[str, int]:
    """By cause, those that have occurred."""
    return {cause: count for cause, count in zip(abi.UNFIT, counts, strict=True) if count}
