"""Draws a small network and what happens to it: gives the text of a topology; touches nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

EVENT_KINDS = ("crash", "leave", "join", "pause", "disconnect", "flap", "lossy", "partition")
_LIFE = frozenset({"crash", "leave", "join"})
_SLOWEST_BPS, _FASTEST_BPS = 30_000, 5_000_000


@dataclass(frozen=True)
class Network:
    """A drawn topology, and what a judge has to know of it."""

    text: str
    slowest_bps: float
    events: int
    last_event_s: float
    """When the last event is over."""
    gone: frozenset[int]
    """Ranks that go and do not come back."""
    away: frozenset[int]
    """Ranks that are absent, crashed or gone at some time."""


def drawn_network(draw: Random, nodes: int, horizon_s: float) -> Network:
    """A star, or two sites with a link between; with up to five events within the horizon."""
    sites = draw.choice((1, 1, 2))
    at = [rank % sites for rank in range(nodes)]
    rates = [_rate(draw) for _ in range(nodes + 1)]
    links = [f"{{from: node.{rank}, to: hub-{at[rank]}, {_quality(draw, rates[rank])}}}" for rank in range(nodes)]
    if sites == 2:
        links.append(f"{{from: hub-0, to: hub-1, {_quality(draw, rates[nodes])}}}")
    events = _Events(draw, at, horizon_s)
    for _ in range(draw.choice((0, 1, 2, 3, 4, 5))):
        events.draw_one()
    lines = [
        "services:",
        f"  node: {{replicas: {nodes}}}",
        f"bridges: [{', '.join(f'hub-{site}' for site in range(sites))}]",
        "links:",
        *(f"  - {each}" for each in links),
        *(["events:"] if events.lines else []),
        *(f"  - {each}" for each in events.lines),
    ]
    return Network(
        text="\n".join(lines) + "\n",
        slowest_bps=min(rates),
        events=len(events.lines),
        last_event_s=events.last_s,
        gone=frozenset(events.gone),
        away=frozenset(events.away),
    )


def _rate(draw: Random) -> int:
    return int(_SLOWEST_BPS * (_FASTEST_BPS / _SLOWEST_BPS) ** draw.random())


def _quality(draw: Random, rate_bps: int) -> str:
    latency_ms = round(200 ** draw.random(), 1)
    jitter_ms = round(latency_ms * draw.choice((0, 0, 0.2)), 2)
    loss = draw.choice((0, 0, 0, 0.1, 1, 3))
    return f"latency: {latency_ms}ms, jitter: {jitter_ms}ms, loss: {loss}%, rate: {rate_bps}bps"


class _Events:
    """Events that are possible together: a node comes or goes in one way only, and two stay all the time."""

    def __init__(self, draw: Random, at: Sequence[int], horizon_s: float) -> None:
        self._draw = draw
        self._at = at
        self._horizon_s = horizon_s
        self.lines: list[str] = []
        self.last_s = 0.0
        self.gone: set[int] = set()
        self.away: set[int] = set()

    def draw_one(self) -> None:
        kind = self._draw.choice(EVENT_KINDS)
        staying = [rank for rank in range(len(self._at)) if rank not in self.away]
        if kind in _LIFE and len(staying) <= 2:
            return
        rank = self._draw.choice(staying)
        from_s, for_s = self._time(self._horizon_s), self._time(self._horizon_s / 2)
        link = f"link: [node.{rank}, hub-{self._at[rank]}]"
        match kind:
            case "crash" | "leave":
                self.away.add(rank)
                returns = self._draw.random() < 0.7
                self._add(from_s, for_s, f"node: node.{rank}, do: {kind}" + (f", rejoin: {for_s}s" if returns else ""))
                if not returns:
                    self.gone.add(rank)
            case "join":
                self.away.add(rank)
                self._add(from_s, 0.0, f"node: node.{rank}, do: join")
            case "pause" | "disconnect":
                self._add(from_s, for_s, f"node: node.{rank}, do: {kind}, for: {for_s}s")
            case "flap":
                times, every_s = self._draw.randint(2, 4), round(for_s + 0.1, 3)
                until_s = round(from_s + times * every_s, 3)
                self.lines.append(
                    f"{{every: {every_s}s, from: {from_s}s, until: {until_s}s, {link}, state: down, "
                    f"for: {round(every_s / 2, 3)}s}}"
                )
                self.last_s = max(self.last_s, until_s)
            case "lossy":
                self._add(from_s, 0.0, f"{link}, loss: {self._draw.choice((5, 15, 30))}%")
                self._add(from_s + for_s, 0.0, f"{link}, loss: 0%")
            case "partition":
                ranks = list(range(len(self._at)))
                self._draw.shuffle(ranks)
                cut = self._draw.randint(1, len(ranks) - 1)
                groups = ", ".join(
                    f"[{', '.join(f'node.{each}' for each in sorted(group))}]" for group in (ranks[:cut], ranks[cut:])
                )
                self._add(from_s, for_s, f"partition: [{groups}], for: {for_s}s")

    def _time(self, longest_s: float) -> float:
        return round(self._draw.uniform(0.05, max(0.1, longest_s)), 3)

    def _add(self, at_s: float, for_s: float, what: str) -> None:
        self.lines.append(f"{{at: {round(at_s, 3)}s, {what}}}")
        self.last_s = max(self.last_s, at_s + for_s)
