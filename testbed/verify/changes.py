"""Measures how soon packets notice a live change of a link.

Takes a link and a running network, gives rows; changes that link and changes it back.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

from testbed.protocol.fabric import Denied, ResetLink, SetLink, ToFabric
from testbed.verify import judge
from testbed.verify.judge import Row, Verdict
from testbed.verify.network import PATIENCE_S, Running, answer_of
from testbed.verify.plan import Change
from testbed.verify.probe_protocol import Echoed
from testbed.verify.sizing import EchoNeed
from testbed.verify.traffic import order_echo

CHANGE, BACK = "change", "change back"
_LONGER_S = 0.025
"""Added latency: far more than any jitter of a chosen link, less than the bound, since packets stay in order."""
_GAP_S = 0.002
_BEFORE_S = _BETWEEN_S = _AFTER_S = 0.7
_UNSEEN_S = 0.2
"""Probes sent this soon before or after a change are not used as the reference for either side."""


def live_change(change: Change, running: Running) -> list[Row]:
    """Returns one row for the change and one for changing it back."""
    origin, dest, pair = change.origin, change.dest, change.pair
    patience_s = 2 * pair.round_trip_s + 2 * _LONGER_S + 0.5
    count = int((_BEFORE_S + _BETWEEN_S + _AFTER_S) / _GAP_S)
    responding, asking, until_s = order_echo(pair, EchoNeed(count, _GAP_S, _GAP_S, patience_s), 0, 0.0, running)
    start_s = running.nodes.begin({responding, asking})
    longer_ms = (change.hop.latency_s + _LONGER_S) * 1e3
    requests: list[Callable[[int], ToFabric]] = [
        partial(SetLink, origin=origin, dest=dest, both=False, latency_ms=longer_ms),
        partial(ResetLink, origin=origin, dest=dest, both=False),
    ]
    times_s = []
    denied = ""
    for at_s, request in zip((start_s + _BEFORE_S, start_s + _BEFORE_S + _BETWEEN_S), requests, strict=True):
        time.sleep(max(0.0, at_s - time.monotonic()))
        times_s.append(time.monotonic())
        answer = running.conversation.ask(request)
        denied = answer.reason if isinstance(answer, Denied) else denied
    answers = running.nodes.answers({responding, asking}, start_s + until_s + PATIENCE_S)
    if denied:
        return [Row(pair.name, CHANGE, None, None, "ms", Verdict.WRONG, f"{origin} → {dest}: {denied}")]
    echoed = answer_of(Echoed, answers, asking)
    probes = sorted(zip(echoed.sent_s, echoed.there_s, strict=True))
    return [
        judge.change(pair.name, what, f"{origin} → {dest}", noticed_s(probes, at_s, change.before_s, by_s))
        for what, at_s, by_s in zip((CHANGE, BACK), times_s, (_LONGER_S, -_LONGER_S), strict=True)
    ]


def noticed_s(probes: list[tuple[float, float]], at_s: float, before_s: float, by_s: float) -> float | None:
    """Time from the change to the first packets at the link that show it; None when none do.

    `probes`: when each was sent, and its delay; `before_s`: time from the sender to the link.
    """
    reached = [(sent_s + before_s - at_s, delay_s) for sent_s, delay_s in probes]
    early = [delay_s for after_s, delay_s in reached if -_BEFORE_S <= after_s <= -_UNSEEN_S]
    if not early:
        return None
    middle_s = statistics.median(early) + by_s / 2
    near = [(after_s, delay_s) for after_s, delay_s in reached if abs(after_s) <= _BETWEEN_S - _UNSEEN_S]
    changed = [after_s for after_s, delay_s in near if (delay_s > middle_s) is (by_s > 0)]
    late = [delay_s for after_s, delay_s in near if after_s >= _UNSEEN_S]
    if not late or abs(statistics.median(late) - statistics.median(early) - by_s) > abs(by_s) / 2:
        return None
    # The instant after which most are changed: a single probe delayed by the machine does not count.
    unchanged = [after_s for after_s, delay_s in near if (delay_s > middle_s) is not (by_s > 0)]
    edges = sorted({*changed, *unchanged})
    return min(edges, key=lambda edge: sum(a < edge for a in changed) + sum(a >= edge for a in unchanged))
