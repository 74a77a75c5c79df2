"""TCP's congestion windows: what a connection may send in its next round, for many connections at once.

Takes `Connections` whose rounds are over, updates their windows; touches nothing else. A round is a round trip: the
window is sent at the rate of the links, then the sender waits for the first acknowledgement. Where the window exceeds
what the links carry in a round trip, rounds follow each other without a gap and the links limit the flow.

Where nothing changes for a while (the links limit the flow, no slow start), or where round trips are shorter than the
model's steps, one round stands for several round trips.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from testbed.network.flows.connections import Connections
from testbed.network.flows.routes import UNTHROTTLED_BYTES_S
from testbed.network.flows.settings import Tcp
from testbed.network.graph import Flags, Floats

_CUBIC_SCALE = 0.4
"""Segments per cubic second."""
_CUBIC_KEEPS, _RENO_KEEPS = 0.7, 0.5
"""Share of the window that remains after a loss."""
_RENO_FRIENDLY = 3.0 * (1.0 - _CUBIC_KEEPS) / (1.0 + _CUBIC_KEEPS)
"""Least growth of cubic, in segments per round trip."""
_LAG = 1.0
"""Round trips without growth after a loss."""
_FASTEST = 1.5
"""Cubic's largest growth factor per round trip, and its least before the first loss."""
_BEFORE_LOSS = 1.05
_HYSTART_SEGMENTS = 16
_CALM_S = 0.1
_LEAST_SEGMENTS = 2.0
_THREE_QUARTERS = 0.75
_MOST_TRIPS = 64.0
"""Most round trips that a round of slow start stands for: further doubling would exceed the range of floats."""

Slots = NDArray[np.intp]


class Windows:
    """Congestion control with the settings of one run."""

    def __init__(self, connections: Connections, tcp: Tcp) -> None:
        self._all = connections
        self._tcp = tcp
        self._is_cubic = tcp.congestion == "cubic"
        self._mss = float(tcp.mss_bytes)
        self._keeps = _CUBIC_KEEPS if self._is_cubic else _RENO_KEEPS

    def open(self, slot: int, first_round_s: float) -> None:
        """Initialises a new connection; `first_round_s`: when its first round begins."""
        every = self._all
        every.is_open[slot] = True
        every.window[slot] = self._tcp.initial_window_bytes
        every.threshold[slot] = np.inf
        every.round_end_s[slot] = first_round_s
        every.last_sent_s[slot] = first_round_s
        every.is_unanswered[slot] = False
        every.missing[slot] = every.before_pause[slot] = 0.0
        every.round_trips[slot] = 1.0
        for array in (every.budget, every.round_sent, every.round_busy_s, every.lost, every.peak):
            array[slot] = 0.0

    def stall(self, slot: int) -> None:
        """Handles loss of the path: when it is back, sending restarts with one segment."""
        every = self._all
        every.round_end_s[slot] = np.inf
        every.is_unanswered[slot] = False
        every.missing[slot] = every.before_pause[slot] = 0.0
        if every.is_busy[slot]:
            every.threshold[slot] = max(every.window[slot] * self._keeps, _LEAST_SEGMENTS * self._mss)
            every.window[slot] = self._mss
        for array in (every.budget, every.round_sent, every.round_busy_s, every.lost):
            array[slot] = 0.0

    def resume(self, slots: Slots) -> Slots:
        """Returns the connections whose round is over; the rounds of others continue.

        A message that began within a round had the rest of the window. Now what was sent before it is acknowledged and
        its window is free again; all that counts as one round, which began with the message.
        """
        every = self._all
        before = every.before_pause[slots]
        paused = before > 0.0
        if not np.count_nonzero(paused):
            return slots
        here, before = slots[paused], before[paused]
        grown = self._after_acknowledgements(here, before)
        every.budget[here] += before + (grown - every.window[here])
        every.window[here] = grown
        every.round_sent[here] -= before
        every.before_pause[here] = 0.0
        every.round_end_s[here] = self._until_told(here, every.budget[here], every.began_s[here] + every.rtt_s[here])
        return slots[~paused]

    def _after_acknowledgements(self, slots: Slots, acknowledged: Floats) -> Floats:
        """Windows in the middle of a round, when so much of what it has sent is acknowledged."""
        every = self._all
        window = every.window[slots]
        avoiding = self._avoiding(slots, window, np.minimum(acknowledged / window, 1.0), every.round_end_s[slots])
        grown = np.where(window < every.threshold[slots], window + acknowledged, avoiding)
        filled = np.where(every.budget[slots] < self._mss, np.inf, 2.0 * every.round_sent[slots])
        grown = np.minimum(np.maximum(window, np.minimum(grown, filled)), self._tcp.receive_window_bytes)
        return np.where(every.lost[slots] > 0.0, window, grown)

    def _until_told(self, slots: Slots, budget: Floats, ends: Floats) -> Floats:
        """Ends of rounds of one round trip, for which `ends` is known.

        Connections with more to send than their window continue at its first acknowledgement, whose delay on the path
        back is known only when that segment has arrived.
        """
        if not self._tcp.two_ways:
            return ends
        every = self._all
        waits = every.queued[slots] > budget
        every.is_unanswered[slots] = waits
        return ends - waits * every.return_s[slots]

    def next_round(self, slots: Slots, step_s: float) -> None:
        """Ends the rounds of these connections, which all have something to send, and begins the next."""
        every = self._all
        rtt, trips = every.rtt_s[slots], every.round_trips[slots]
        window, threshold = every.window[slots], every.threshold[slots]
        sent, busy_s, lost = every.round_sent[slots], every.round_busy_s[slots], every.lost[slots]
        round_end, began = every.round_end_s[slots], every.began_s[slots]
        start = np.maximum(round_end, began)
        left = every.budget[slots]
        used_up = left < self._mss
        # What fits in flight: a window that neither the links nor the sender fill does not grow beyond twice that.
        filled = 2.0 * sent / trips

        slow = window < threshold
        # On a link the last of them leave while half of the previous window is in flight: that counts as filled, too.
        paced = slow & every.is_clocked[slots] & (every.most[slots] < UNTHROTTLED_BYTES_S)
        filled = np.where(paced, np.inf, filled)
        grown = window + sent
        # Counting is several times faster than `any` or `all` on arrays this small.
        how_many_slow = np.count_nonzero(slow)
        if how_many_slow < slow.size:
            grown = np.where(slow, grown, self._avoiding(slots, window, trips, start))
        grown = np.where(used_up, grown, np.maximum(window, np.minimum(grown, filled)))
        if self._is_cubic and how_many_slow:
            grown, threshold = self._after_delay(slots, slow, grown, threshold)
        hurt = lost > 0.0
        is_any_hurt = np.count_nonzero(hurt)
        if is_any_hurt:
            # Acknowledgements before the lost segment's still grew a slow start's window.
            at_loss = np.where(slow, np.minimum(grown, window + every.before_loss[slots]), window)
            at_loss = np.where(hurt, at_loss, grown)
            grown, threshold = self._after_loss(slots, hurt, at_loss, threshold, start)
        if self._tcp.idle_restart:
            grown, threshold = self._after_idleness(slots, grown, threshold, rtt)
        grown = np.minimum(grown, self._tcp.receive_window_bytes)

        # The links were the limit all the time, and will remain so.
        calm = (busy_s >= rtt / 2.0 * trips) & (began < round_end) & ~(used_up | hurt | (slow & (grown > window)))
        trips = np.ceil(np.where(calm, np.maximum(step_s, _CALM_S), step_s) / rtt)
        trips = np.maximum(np.minimum(trips, np.where(calm, np.inf, _MOST_TRIPS)), 1.0)
        every.window[slots], every.threshold[slots] = grown, threshold
        budget, ends = grown, start + trips * rtt
        if np.count_nonzero(trips > 1.0):
            doubles = ~calm & (grown < threshold)
            together = np.where(doubles, np.exp2(np.minimum(trips, _MOST_TRIPS)) - 1.0, trips)
            most = np.where(doubles, trips * self._tcp.receive_window_bytes, np.inf)
            budget = np.minimum(grown * together, most)
        if is_any_hurt:
            ends = ends + np.where(lost > 1.0, rtt + self._tcp.min_rto_s, 0.0)
        # What gets through; but at least a segment, which is always sent as a whole.
        budget = np.maximum(budget * (1.0 - every.loss[slots]), self._mss)
        every.budget[slots] = budget
        every.is_clocked[slots] = began < round_end
        if np.count_nonzero(every.missing[slots]):
            ends = self._after_drop(slots, left, rtt, ends)
            budget = every.budget[slots]
        # Rounds of several round trips have more than they need.
        every.round_end_s[slots] = self._until_told(slots, np.where(trips > 1.0, np.inf, budget), ends)
        every.round_trips[slots] = trips
        every.before_pause[slots] = 0.0
        every.round_sent[slots] = every.round_busy_s[slots] = every.lost[slots] = 0.0

    def _after_delay(self, slots: Slots, slow: Flags, grown: Floats, threshold: Floats) -> tuple[Floats, Floats]:
        """Windows and thresholds; slow start ends where acknowledgements arrive for half a round trip (HyStart)."""
        every = self._all
        window = every.window[slots]
        full = slow & (window >= _HYSTART_SEGMENTS * self._mss)
        if not np.count_nonzero(full):
            return grown, threshold
        rtt, trips = every.rtt_s[slots], every.round_trips[slots]
        sent, busy_s = every.round_sent[slots], every.round_busy_s[slots]
        # Their spacing is that of the links; waiting for data in the other direction does not show in it.
        last_trip_s = np.where(trips > 1.0, busy_s / 2.0, busy_s) / (1.0 + every.longer[slots])
        full &= last_trip_s >= rtt / 2.0
        until_full = np.minimum(1.0, rtt / 2.0 / np.maximum(last_trip_s, 1e-12))
        grown = np.where(full, np.minimum(grown, window + sent * until_full), grown)
        return grown, np.where(full, grown, threshold)

    def _avoiding(self, slots: Slots, window: Floats, trips: Floats, now: Floats) -> Floats:
        """Windows after a round of congestion avoidance that filled them."""
        if not self._is_cubic:
            return window + trips * self._mss
        every = self._all
        peak, rtt, powers = every.peak[slots], every.rtt_s[slots], np.minimum(trips, _MOST_TRIPS)
        since = now - every.epoch_s[slots]
        cubic = peak + _CUBIC_SCALE * (since + rtt - every.peak_in_s[slots]) ** 3 * self._mss
        # Whole segments, and none while the lost one is retransmitted, which matters for small windows.
        reno = every.threshold[slots] + np.floor(np.maximum(_RENO_FRIENDLY * (since / rtt - _LAG), 0.0)) * self._mss
        least = np.where(peak > 0.0, window, window * _BEFORE_LOSS**powers)
        wanted = np.where(peak > 0.0, np.maximum(cubic, reno), least)
        grown: Floats = np.minimum(np.maximum(wanted, least), window * _FASTEST**powers)
        return grown

    def _after_loss(
        self, slots: Slots, hurt: Flags, window: Floats, threshold: Floats, now: Floats
    ) -> tuple[Floats, Floats]:
        """Windows and thresholds, reduced for connections with a loss."""
        every = self._all
        kept = np.maximum(np.floor(window * self._keeps / self._mss), _LEAST_SEGMENTS) * self._mss
        where, at_loss = slots[hurt], window[hurt]
        # A loss below the window of the previous one: another flow has joined, so aim lower (fast convergence).
        peak = np.where(at_loss < every.peak[where], at_loss * (1.0 + self._keeps) / 2.0, at_loss)
        every.peak[where] = peak
        every.epoch_s[where] = now[hurt]
        every.peak_in_s[where] = np.cbrt(np.maximum(peak - kept[hurt], 0.0) / self._mss / _CUBIC_SCALE)
        after = np.where(every.lost[slots] > 1.0, self._mss, kept)
        return np.where(hurt, after, window), np.where(hurt, kept, threshold)

    def _after_drop(self, slots: Slots, left: Floats, rtt: Floats, ends: Floats) -> Floats:
        """Ends of rounds after a queue dropped the end of one; `left`: bytes that still wait before the links.

        Acknowledgements of later segments reveal what is missing, so only that is sent in this round. At the end of a
        message nothing follows: then a probe reveals it, after two round trips (RFC 8985).
        """
        every = self._all
        missing = every.missing[slots]
        following = every.queued[slots] - missing - left
        budget = every.budget[slots]
        most = np.minimum(budget, left + np.maximum(following, self._mss))
        every.budget[slots] = np.where(missing > 0.0, most, budget)
        every.missing[slots] = 0.0
        is_end = (missing > 0.0) & (following < self._mss)
        return np.where(is_end, ends + 2.0 * rtt, ends)

    def _after_idleness(self, slots: Slots, window: Floats, threshold: Floats, rtt: Floats) -> tuple[Floats, Floats]:
        """Windows of idle connections: halved for every timeout's time, down to the initial one."""
        every = self._all
        timeouts = (every.began_s[slots] - every.last_sent_s[slots]) / (rtt + self._tcp.min_rto_s)
        idle = timeouts > 1.0
        if not np.count_nonzero(idle):
            return window, threshold
        halved = window * np.exp2(1.0 - np.ceil(np.minimum(timeouts, _MOST_TRIPS)))
        fallen = np.maximum(halved, np.minimum(window, self._tcp.initial_window_bytes))
        return (
            np.where(idle, fallen, window),
            np.where(idle, np.maximum(threshold, window * _THREE_QUARTERS), threshold),
        )
