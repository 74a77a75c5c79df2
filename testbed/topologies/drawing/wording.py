"""Texts of quantities and links in a picture: short, rounded to three digits, safe to show.

Takes model values, gives text; touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from testbed.topologies.drawing.grouping import Anatomy, Lane, Tie
from testbed.topologies.model import LinkProperties
from testbed.units import UNLIMITED

_LONGEST_NAME = 26


def clean(text: str) -> str:
    """The text without characters that an XML file or one line of a picture cannot hold."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def short(name: str, longest: int = _LONGEST_NAME) -> str:
    """A name as a label shows it: one line, cut in the middle when it is very long."""
    shown = clean(name)
    if len(shown) <= longest:
        return shown
    tail = (longest - 1) // 3
    return shown[: longest - 1 - tail] + "…" + shown[-tail:]


def number(value: float) -> str:
    """Three digits at most, never an exponent."""
    if value == 0:
        return "0"
    text = f"{value:.3g}"
    return f"{float(text):.12f}".rstrip("0").rstrip(".") if "e-" in text else f"{float(text):g}"


def latency(latency_ms: float) -> str:
    if latency_ms >= 10_000:
        return f"{number(latency_ms / 1000)} s"
    return f"{number(latency_ms)} ms"


def rate(rate_bps: float) -> str:
    if rate_bps == UNLIMITED:
        return "unlimited"
    for unit, size in (("Tbps", 1e12), ("Gbps", 1e9), ("Mbps", 1e6), ("kbps", 1e3)):
        if rate_bps >= size:
            return f"{number(rate_bps / size)} {unit}"
    return f"{number(rate_bps)} bps"


def percent(loss: float) -> str:
    return f"{number(loss * 100)} %"


@dataclass(frozen=True, slots=True)
class Facets:
    """Which properties of a link a label mentions."""

    latency: bool = True
    rate: bool = True
    loss: bool = True
    jitter: bool = True
    background: bool = True

    @property
    def any(self) -> bool:
        return self.latency or self.rate or self.loss or self.jitter or self.background


EVERYTHING = Facets()


def describe(properties: LinkProperties, facets: Facets = EVERYTHING) -> str:
    """`40 ms ±2 · 1 Gbps · 0.1 % loss`: what the facets ask for, zeros left out."""
    parts: list[str] = []
    if facets.latency:
        parts.append(latency(properties.latency_ms))
    if facets.jitter and properties.jitter_ms:
        jitter = f"±{number(properties.jitter_ms)}"
        parts = [f"{parts[0]} {jitter}"] if parts else [f"{jitter} ms jitter"]
    if facets.rate:
        parts.append(rate(properties.rate_bps))
    if facets.loss and properties.loss:
        parts.append(f"{percent(properties.loss)} loss")
    if facets.background and properties.background_bps:
        parts.append(f"{rate(properties.background_bps)} other traffic")
    return " · ".join(parts)


def differing(lanes: Iterable[Lane]) -> Facets:
    """The properties that are not the same on all of the lanes: only these are worth a label each."""
    properties = {lane.properties for lane in lanes}
    return Facets(
        latency=len({one.latency_ms for one in properties}) > 1,
        rate=len({one.rate_bps for one in properties}) > 1,
        loss=len({one.loss for one in properties}) > 1,
        jitter=len({one.jitter_ms for one in properties}) > 1,
        background=len({one.background_bps for one in properties}) > 1,
    )


def common(lanes: Sequence[Lane]) -> str:
    """What all lanes have in common, to be said once; empty when there is nothing."""
    if not lanes:
        return ""
    different = differing(lanes)
    return describe(
        lanes[0].properties,
        Facets(
            latency=not different.latency,
            rate=not different.rate,
            loss=not different.loss,
            jitter=not different.jitter,
            background=not different.background,
        ),
    )


def lane_text(lanes: Sequence[Lane], facets: Facets = EVERYTHING) -> str:
    """One direction of a tie; parallel links are counted after the first, and told of when they lose more than it."""
    text = describe(lanes[0].properties, facets)
    if len(lanes) == 1:
        return text
    others = f"+{len(lanes) - 1} more"
    most = max(lane.properties.loss for lane in lanes[1:])
    if most > lanes[0].properties.loss:
        others += f", {'up to ' if len(lanes) > 2 else ''}{percent(most)} loss"
    return f"{text} ({others})" if text else others


def tie_tip(anatomy: Anatomy, tie: Tie) -> str:
    """All there is to say about a tie, a line for each direction."""
    first, second = clean(anatomy.name(tie.first)), clean(anatomy.name(tie.second))
    if tie.symmetric and not tie.one_way:
        lines = [f"{first} ↔ {second}: {'; '.join(_lane_tip(lane) for lane in tie.forward)}"]
    else:
        lines = [
            f"{origin} → {dest}: {'; '.join(_lane_tip(lane) for lane in lanes)}"
            for origin, dest, lanes in ((first, second, tie.forward), (second, first, tie.backward))
            if lanes
        ]
    return "\n".join(lines)


def _lane_tip(lane: Lane) -> str:
    remarks = [describe(lane.properties)]
    if lane.origin_shared or lane.dest_shared:
        remarks.append("shared access link")
    if lane.starts_down:
        remarks.append("starts down")
    if lane.changes:
        remarks.append("changes by events")
    return ", ".join(remarks)
