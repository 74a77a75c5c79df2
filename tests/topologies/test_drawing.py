"""A picture says all that the topology says, no name can break out of it, and it is always the same."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from testbed.topologies.drawing import Colour, Labels, PictureFormat, Style, draw
from testbed.topologies.drawing.canvas import Canvas
from testbed.topologies.drawing.grouping import anatomy
from testbed.topologies.drawing.labels import draw_label
from testbed.topologies.drawing.layout import EXACT_PLACES, arrange
from testbed.topologies.drawing.node_kinds import node_kinds
from testbed.topologies.drawing.palette import NEUTRAL, STRAGGLER, Scale, ramp
from testbed.topologies.drawing.scene import MOST_LINES, compose
from testbed.topologies.drawing.shapes import Box, Disc, Picture, Polygon, Stroke, Words, box_of
from testbed.topologies.drawing.stage import set_stage
from testbed.topologies.drawing.strokes import Course
from testbed.topologies.drawing.wording import latency, number, percent, rate, short
from testbed.topologies.model import (
    Bridge,
    BridgeEvent,
    Link,
    LinkChange,
    LinkEvent,
    LinkProperties,
    NodeAction,
    NodeEvent,
    PartitionEvent,
    Service,
    Topology,
    When,
)

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = (
    '"><script>alert(1)</script>',
    "a: b",
    "]",
    "yes",
    "012",
    'x\\N\\l"',
    "`md`",
    "#quot;",
    "%%{init}%%",
    "日本 $x^2$",
    "a\nb\x07",
)


def props(latency_ms: float, mbps: float = 1000, loss: float = 0.0) -> LinkProperties:
    return LinkProperties(latency_ms, mbps * 1e6, loss=loss)


def both(origin: str, dest: str, properties: LinkProperties) -> list[Link]:
    return [Link(origin, dest, properties), Link(dest, origin, properties)]


def topology(
    name: str, services: Iterable[Service], bridges: Iterable[str], links: Iterable[Link], **rest: object
) -> Topology:
    built = Topology(name, tuple(services), tuple(links), tuple(Bridge(bridge) for bridge in bridges))
    return replace(built, **rest)  # type: ignore[arg-type]


def sites(count: int, replicas: int) -> Topology:
    """A full mesh of bridges with a service behind each."""
    links = [link for at in range(count) for link in both(f"site{at}", f"hub{at}", props(1, 100))]
    for one in range(count):
        for two in range(one + 1, count):
            links += both(f"hub{one}", f"hub{two}", props(10 + 7 * ((one * 5 + two * 3) % 11)))
    services = [Service(f"site{at}", replicas=replicas) for at in range(count)]
    return topology(f"sites{count}", services, [f"hub{at}" for at in range(count)], links)


def star(fast: int, slow: int) -> Topology:
    services = [Service("quick", replicas=fast), Service("sluggish", replicas=slow)]
    links = [*both("quick", "switch", props(1, 100)), *both("sluggish", "switch", props(1, 10))]
    return topology("star", services, ["switch"], links)


def stragglers() -> Topology:
    """One large service and slow ones of their own, side by side."""
    services = [Service("quick", replicas=53), *(Service(f"sluggish{at}") for at in range(7))]
    links = [link for service in services for link in both(service.name, "switch", props(1, 100 / service.replicas))]
    return topology("stragglers", services, ["switch"], links)


def small() -> Topology:
    """Everything that a picture has a sign for, on six nodes."""
    links = [
        Link("alice", "r1", props(1, 10), origin_shared=True),
        Link("r1", "alice", props(1, 50), dest_shared=True),
        *both("bob", "r2", props(2, 100)),
        *both("carol", "r3", props(1, 100)),
        Link("r1", "r2", props(20, 1000, 0.001)),
        Link("r2", "r1", props(35, 200)),
        Link("r2", "r3", props(60, 100)),
        *(replace(link, starts_down=True) for link in both("r1", "r3", props(15, 10))),
        *both("dashboard", "r1", props(1)),
    ]
    services = [
        Service("alice", replicas=3),
        Service("bob", replicas=2),
        Service("carol"),
        Service("dashboard", supervisor=True),
    ]
    events = (
        NodeEvent(When(5.0), NodeAction.CRASH, ("alice.1",)),
        LinkEvent(When(5.0), "r2", "r3", LinkChange(loss=0.1)),
        BridgeEvent(When(9.0), "r3", False),
    )
    return topology("small", services, ["r1", "r2", "r3"], links, events=events)


def hostile() -> Topology:
    links = [link for at, name in enumerate(HOSTILE) for link in both(name, f"{name}!", props(1 + at))]
    links += both(f"{HOSTILE[0]}!", f"{HOSTILE[1]}!", props(30))
    return topology(HOSTILE[0], [Service(name) for name in HOSTILE], [f"{name}!" for name in HOSTILE], links)


def chain_of_bridges(count: int, closed: bool) -> Topology:
    pairs = [(at, (at + 1) % count) for at in range(count if closed else count - 1)]
    return topology(
        "chain",
        [],
        [f"b{at}" for at in range(count)],
        [link for a, b in pairs for link in both(f"b{a}", f"b{b}", props(5))],
    )


AWKWARD = {
    "nothing": topology("", [], [], []),
    "one service": topology("one", [Service("only")], [], []),
    "no links": topology("apart", [Service("a", replicas=5), Service("b")], ["x"], []),
    "direct": topology("direct", [Service("a", replicas=6), Service("b", replicas=2)], [], both("a", "b", props(3))),
    "among themselves": topology("inner", [Service("a", replicas=4)], [], [Link("*", "*", props(3))]),
    "pieces": topology(
        "pieces",
        [Service("a"), Service("b"), Service("c", replicas=3)],
        ["x", "y"],
        [*both("a", "x", props(1)), *both("b", "y", props(0))],
    ),
    "no latency": topology("zero", [Service("a")], ["x", "y"], [*both("a", "x", props(0)), *both("x", "y", props(0))]),
    "unlimited": topology("free", [Service("a", replicas=2)], ["x"], both("a", "x", LinkProperties(1.0, math.inf))),
    "crowd": topology(
        "crowd",
        [Service("a", replicas=5000), Service("b", replicas=3)],
        ["x"],
        [*both("a", "x", props(1)), *both("b", "x", props(1, 1))],
    ),
    "hostile": hostile(),
    "small": small(),
    "star": star(53, 7),
    "mesh": sites(10, 26),
}


def shapes(picture: Picture, role: str) -> list[Stroke | Disc | Polygon | Words]:
    return [shape for shape in picture.shapes if shape.role == role]


def texts(picture: Picture) -> list[str]:
    return [shape.text for shape in picture.shapes if isinstance(shape, Words)]


@pytest.mark.parametrize("network", AWKWARD.values(), ids=AWKWARD)
@pytest.mark.parametrize("kind", list(PictureFormat))
def test_every_network_has_a_drawing_of_every_kind_and_always_the_same(network: Topology, kind: PictureFormat) -> None:
    first = draw(network, kind)
    assert len(first) > 40
    assert draw(replace(network), kind) == first


@pytest.mark.parametrize("network", AWKWARD.values(), ids=AWKWARD)
def test_an_svg_is_xml_that_refers_to_nothing_outside(network: Topology) -> None:
    text = draw(network, PictureFormat.SVG).decode()
    root = ElementTree.fromstring(text)  # noqa: S314 - our own output
    assert root.tag == f"{SVG}svg"
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg", "title", "rect", "circle", "polygon", "path", "text",
    }  # fmt: skip
    for element in root.iter():
        assert not any("href" in name or name.startswith("on") or name == "style" for name in element.attrib)
    assert "url(" not in text
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert "nan" not in re.sub(r">[^<]*<", "><", text)


@pytest.mark.parametrize("network", [small(), star(53, 7), sites(10, 26)], ids=lambda network: network.name)
def test_every_bridge_service_and_count_is_written(network: Topology) -> None:
    root = ElementTree.fromstring(draw(network, PictureFormat.SVG))  # noqa: S314
    written = {element.text for element in root.iter(f"{SVG}text")}
    for bridge in network.bridges:
        assert bridge.name in written
    for service in network.services:
        if not service.supervisor:
            assert (f"{service.name} ×{service.replicas}" if service.replicas > 1 else service.name) in written
    assert network.name in written
    assert any(text and text.startswith(f"{len(network.nodes)} nodes · ") for text in written)


@pytest.mark.parametrize(
    "network",
    [small(), star(53, 7), stragglers(), sites(4, 4), sites(7, 3), sites(10, 26)],
    ids=lambda network: network.name,
)
def test_words_do_not_lie_on_words_and_all_are_on_the_page(network: Topology) -> None:
    picture = compose(network)
    frames = [(shape.text, box_of(shape)) for shape in picture.shapes if isinstance(shape, Words)]
    for at, (text, frame) in enumerate(frames):
        assert frame.left >= 0, text
        assert frame.top >= 0, text
        assert frame.right <= picture.width, text
        assert frame.bottom <= picture.height, text
        for other_text, other in frames[at + 1 :]:
            assert frame.overlap(other) < 12, (text, other_text)


def test_dots_do_not_lie_on_dots_or_bridges() -> None:
    for network in (star(53, 7), stragglers(), sites(4, 4), sites(10, 26)):
        picture = compose(network)
        dots = [shape for shape in shapes(picture, "node") if isinstance(shape, Disc) and shape.tip]
        squares = [shape for shape in shapes(picture, "bridge") if isinstance(shape, Polygon) and shape.tip]
        for at, dot in enumerate(dots):
            assert all(math.dist(dot.centre, other.centre) > 2 * dot.radius for other in dots[at + 1 :])
            assert all(math.dist(dot.centre, corner) > dot.radius for square in squares for corner in square.points)


def test_places_do_not_lie_on_places() -> None:
    bubbles = [shape for shape in compose(sites(10, 26)).shapes if isinstance(shape, Disc) and shape.role == "bubble"]
    assert len(bubbles) == 10
    for at, one in enumerate(bubbles):
        for other in bubbles[at + 1 :]:
            assert math.dist(one.centre, other.centre) > one.radius + other.radius


def test_every_node_is_a_dot_until_there_are_too_many() -> None:
    assert len([dot for dot in shapes(compose(sites(10, 26)), "node") if isinstance(dot, Disc)]) == 260 + 1  # legend
    crowd = compose(AWKWARD["crowd"])
    assert len(shapes(crowd, "node")) + len(shapes(crowd, "straggler")) <= 6
    assert "×5000" in texts(crowd)


def test_nodes_are_numbered_when_they_are_few() -> None:
    assert {"0", "1", "2", "3"} <= set(texts(compose(sites(4, 4))))
    assert "0" not in texts(compose(sites(4, 4), Style(Labels.NONE)))
    assert "0" not in texts(compose(sites(10, 26)))


def test_stragglers_stand_out_by_form_and_colour() -> None:
    slow = shapes(compose(star(53, 7)), "straggler")
    assert len(slow) == 7 + 1  # legend
    assert all(isinstance(shape, Polygon) and shape.fill == STRAGGLER for shape in slow)
    assert "slow node: 10 Mbps (7)" in texts(compose(star(53, 7)))
    assert not shapes(compose(sites(4, 4)), "straggler")


def test_slow_is_relative_to_the_usual_node() -> None:
    def slow_ones(*rates: float) -> list[str]:
        services = [Service(f"s{at}") for at in range(len(rates))]
        links = [link for at, mbps in enumerate(rates) for link in both(f"s{at}", "x", props(1, mbps))]
        parts = anatomy(topology("t", services, ["x"], links))
        _, kinds = node_kinds(parts)
        return [parts.group(place).name for place, kind in kinds.items() if kind.slow]

    assert slow_ones(100, 100, 100, 51) == []
    assert slow_ones(100, 100, 100, 50) == ["s3"]
    assert slow_ones(10, 10, 10) == []
    assert slow_ones(100, 10) == ["s1"]


def test_slow_computers_are_stragglers_too() -> None:
    services = [Service("a", replicas=3), Service("b", speed=0.25)]
    picture = compose(topology("t", services, ["x"], [*both("a", "x", props(1)), *both("b", "x", props(1))]))
    assert len(shapes(picture, "straggler")) == 1 + 1
    assert any("compute ×0.25" in text for text in texts(picture))


def test_one_way_links_have_heads_and_pairs_are_one_line() -> None:
    one_way = topology("t", [], ["x", "y"], [Link("x", "y", props(5))])
    two_way = topology("t", [], ["x", "y"], both("x", "y", props(5)))
    assert len(shapes(compose(one_way), "link")) == len(shapes(compose(two_way), "link")) == 1
    assert len(shapes(compose(one_way), "arrow")) == 1 + 1
    assert not shapes(compose(two_way), "arrow")
    head = next(shape for shape in shapes(compose(one_way), "arrow") if isinstance(shape, Polygon))
    line = next(shape for shape in shapes(compose(one_way), "link") if isinstance(shape, Stroke))
    assert math.dist(head.points[0], line.end) < math.dist(head.points[0], line.start)


def test_the_head_is_at_the_end_that_the_link_leads_to() -> None:
    picture = compose(topology("t", [], ["x", "y"], [Link("y", "x", props(5))]))
    head = next(shape for shape in shapes(picture, "arrow") if isinstance(shape, Polygon))
    squares = {shape.tip: shape for shape in shapes(picture, "bridge") if isinstance(shape, Polygon) and shape.tip}
    near, far = (math.dist(head.points[0], squares[f"bridge {name}"].points[0]) for name in "xy")
    assert near < far


def test_unlike_directions_are_both_labelled() -> None:
    links = [Link("x", "y", props(20)), Link("y", "x", props(35))]
    labels = [shape.text for shape in shapes(compose(topology("t", [], ["x", "y"], links)), "label")]  # type: ignore[union-attr]
    assert sorted(label[2:] for label in labels) == ["20 ms · 1 Gbps", "35 ms · 1 Gbps"]
    assert len({label[0] for label in labels}) == 2


def test_labels_mention_only_what_differs_and_the_legend_the_rest() -> None:
    picture = compose(sites(4, 4))
    labels = [shape.text for shape in shapes(picture, "label")]  # type: ignore[union-attr]
    assert len(labels) == 6
    assert all(re.fullmatch(r"\d+ ms", label) for label in labels)
    assert "all links between places: 1 Gbps" in texts(picture)
    assert "all access links: 1 ms · 100 Mbps" in texts(picture)


def test_labels_can_be_forced_and_forbidden() -> None:
    assert not shapes(compose(sites(10, 2)), "label")
    assert len(shapes(compose(sites(10, 2), Style(Labels.ALL)), "label")) == 45
    assert not shapes(compose(sites(4, 4), Style(Labels.NONE)), "label")


@pytest.mark.parametrize("insist", [True, False])
def test_a_label_without_room_is_left_out_unless_it_was_asked_for(insist: bool) -> None:
    parts = anatomy(sites(2, 1))
    stage, canvas = set_stage(parts, Style()), Canvas(taken=[Box(-1e4, -1e4, 1e4, 1e4)])
    way = Course((0.0, 0.0), (300.0, 0.0))
    assert draw_label(canvas, stage, parts.backbone[0], way, "", insist) is insist
    assert bool(canvas.words) is insist


def test_signs_for_shared_links_loss_and_events() -> None:
    picture = compose(small())
    plain = compose(sites(3, 2))
    assert shapes(picture, "shared")
    assert not shapes(plain, "shared")
    assert sum(isinstance(shape, Stroke) and shape.dashed and shape.role == "link" for shape in picture.shapes) == 2
    assert not any(isinstance(shape, Stroke) and shape.dashed for shape in plain.shapes)
    assert any("has events" in shape.tip and "alice.1" in shape.tip for shape in picture.shapes)
    assert sum("has events" in shape.tip for shape in picture.shapes) <= 2
    assert any(shape.dashed for shape in shapes(picture, "bridge") if isinstance(shape, Polygon) and "r3" in shape.tip)
    assert "not drawn: supervisor dashboard" in texts(picture)
    assert not any(shape.tip.startswith("dashboard") for shape in picture.shapes)


@pytest.mark.parametrize("at_origin", [True, False])
def test_a_link_that_is_shared_one_way_only_is_marked_too(at_origin: bool) -> None:
    link = Link("a", "x", props(1), origin_shared=True) if at_origin else Link("x", "a", props(1), dest_shared=True)
    alone = replace(link, origin="a.0") if at_origin else replace(link, dest="a.0")
    assert shapes(compose(topology("t", [Service("a", replicas=3)], ["x"], [link])), "shared")
    assert not shapes(compose(topology("t", [Service("a", replicas=3)], ["x"], [alone])), "shared")


def test_loss_is_marked_where_no_label_says_it() -> None:
    network = sites(10, 2)
    lossy = tuple(
        replace(link, properties=replace(link.properties, loss=0.01))
        if {link.origin, link.dest} == {"hub0", "hub3"}
        else link
        for link in network.links
    )
    assert not shapes(compose(network), "loss")
    assert len(shapes(compose(replace(network, links=lossy)), "loss")) == 1 + 1
    assert not shapes(compose(replace(network, links=lossy), Style(colour=Colour.LOSS)), "loss")


def parallel() -> Topology:
    """Between the same places a near link and, written first, a far one with more rate that loses packets."""
    links = [
        *both("a", "x", props(1, 9000)),
        *both("b", "y", props(9, 2000)),
        *both("b", "y", props(1, 1000)),
        *both("x", "y", props(30, 2000, 0.2)),
        *both("x", "y", props(2, 1000)),
        *both("y", "z", props(15, 1000)),
    ]
    return topology("parallel", [Service("a"), Service("b")], ["x", "y", "z"], links)


def test_parallel_links_are_drawn_like_the_one_that_routing_takes() -> None:
    picture = compose(parallel())
    labels = [shape.text for shape in shapes(picture, "label")]  # type: ignore[union-attr]
    assert sorted(labels) == ["15 ms · 1 Gbps", "2 ms · 1 Gbps (+1 more, 20 % loss)"]
    near, far = (
        next(shape for shape in shapes(picture, "link") if isinstance(shape, Stroke) and ends in shape.tip)
        for ends in ("x ↔ y", "y ↔ z")
    )
    assert (near.colour, far.colour) == (ramp(0), ramp(1))
    assert "node: 1 Gbps (1)" in " ".join(texts(picture))
    assert not any("2 Gbps" in text for text in texts(picture))
    assert any(text.startswith("parallel links: drawn like") for text in texts(picture))
    tie = anatomy(parallel()).backbone[0]
    assert [lane.properties.latency_ms for lane in tie.forward] == [2, 30]
    assert {lane.properties.latency_ms for lane in tie.leading} == {2}


@pytest.mark.parametrize("colour", list(Colour))
def test_loss_of_any_parallel_link_is_marked_and_told(colour: Colour) -> None:
    picture = compose(parallel(), Style(colour=colour))
    marks = [shape for shape in shapes(picture, "loss") if isinstance(shape, Polygon) and shape.tip]
    assert len(marks) == 1
    (card,) = [shape for shape in shapes(picture, "label") if isinstance(shape, Words) and "+1 more" in shape.text]
    assert box_of(card).overlap(Box(*marks[0].points[3], *marks[0].points[1]).grown(2)) == 0
    assert "packet loss: 0 to 20 %" in texts(picture)


def test_a_parallel_link_that_starts_down_does_not_lead() -> None:
    links = [*both("x", "y", props(30)), *(replace(link, starts_down=True) for link in both("x", "y", props(2)))]
    (tie,) = anatomy(topology("t", [], ["x", "y"], links)).ties
    assert {lane.properties.latency_ms for lane in tie.leading} == {30}


def test_distance_on_paper_follows_the_fastest_of_parallel_links() -> None:
    text = draw(parallel(), PictureFormat.DOT).decode()
    assert "len=1.05" in text
    assert "len=1.38" in text
    assert "len=1.75" not in text


def mobile(latencies_ms: tuple[float, float], mbps: tuple[float, float], replicas: int = 3) -> Topology:
    """Two services behind each of two bridges, with the same pair of access links at both."""
    links = both("x", "y", props(5, 1000))
    for bridge in "xy":
        for kind, latency_ms, rate_mbps in zip("ab", latencies_ms, mbps, strict=True):
            links += both(f"{kind}{bridge}", bridge, props(latency_ms, rate_mbps))
    return topology("m", [Service(f"{kind}{at}", replicas=replicas) for at in "xy" for kind in "ab"], ["x", "y"], links)


def spokes(picture: Picture) -> list[Stroke]:
    return [shape for shape in shapes(picture, "link") if isinstance(shape, Stroke) and "x ↔ y" not in shape.tip]


@pytest.mark.parametrize("colour", [Colour.LATENCY, Colour.RATE])
@pytest.mark.parametrize("backbone", [True, False])
def test_access_links_are_coloured_when_they_differ_and_only_then(colour: Colour, backbone: bool) -> None:
    def of(latencies_ms: tuple[float, float], mbps: tuple[float, float]) -> Picture:
        network = mobile(latencies_ms, mbps)
        links = network.links if backbone else tuple(link for link in network.links if link.properties.latency_ms != 5)
        return compose(replace(network, links=links), Style(colour=colour))

    by_latency, by_rate = of((18, 40), (10, 10)), of((18, 18), (2, 15))
    for picture, differ in ((by_latency, colour is Colour.LATENCY), (by_rate, colour is Colour.RATE)):
        found = {shape.colour for shape in spokes(picture)}
        assert len(found) == (2 if differ else 1)
        assert (found == {NEUTRAL}) is not differ
    bar = any(shape.role == "bar" for shape in by_rate.shapes)
    assert bar == (colour is Colour.RATE)


def test_access_links_are_as_thick_as_the_legend_promises() -> None:
    picture = compose(mobile((1, 1), (5, 1000)))
    widths = {shape.tip.split(": ")[1]: shape.width for shape in spokes(picture)}
    core = next(shape.width for shape in shapes(picture, "link") if isinstance(shape, Stroke) and "x ↔ y" in shape.tip)
    assert widths["1 ms · 1 Gbps"] == core > 2 * widths["1 ms · 5 Mbps"]
    assert "thicker: 5 Mbps to 1 Gbps" in texts(picture)
    alike = compose(mobile((1, 1), (5, 5)))
    assert not any(text.startswith("thicker") for text in texts(alike))
    links = [*mobile((1, 1), (5, 5)).links, *both("y", "z", props(5, 100))]
    picture = compose(replace(mobile((1, 1), (5, 5)), links=tuple(links), bridges=tuple(map(Bridge, "xyz"))))
    assert "thicker between places: 100 Mbps to 1 Gbps" in " ".join(texts(picture))


def test_nodes_show_what_access_links_differ_in_where_these_have_no_room() -> None:
    crowded = mobile((1, 1), (50, 100), replicas=40)
    by_rate = compose(crowded, Style(colour=Colour.RATE))
    rims = [shape for shape in shapes(by_rate, "rim") if isinstance(shape, Disc)]
    assert not spokes(by_rate)
    assert len(rims) == 160 + 1  # legend
    assert len({shape.fill for shape in rims[:160]}) == 2
    assert "rim of a node: its access link" in texts(by_rate)
    assert not shapes(compose(crowded), "rim")


def test_shared_links_have_the_colours_and_widths_that_the_legend_promises() -> None:
    links = [
        replace(link, origin_shared=link.origin != "x", dest_shared=link.origin == "x")
        for name, properties in (("a", props(1, 10)), ("b", props(50, 1000)))
        for link in both(name, "x", properties)
    ]
    network = topology("t", [Service("a", replicas=3), Service("b", replicas=3)], ["x"], links)
    picture = compose(network)
    near, far = sorted((shape for shape in spokes(picture)), key=lambda shape: shape.width)
    assert (near.colour, far.colour) == (ramp(0), ramp(1))
    assert far.width > 2 * near.width
    alike = compose(replace(network, links=tuple(replace(link, properties=props(1, 10)) for link in links)))
    assert not shapes(alike, "bar")
    assert not any(text.startswith("thicker") for text in texts(alike))
    assert len({(shape.colour, shape.width) for shape in spokes(alike)}) == 1


def test_the_legend_says_nothing_of_lines_that_are_not_drawn() -> None:
    links = [*mobile((1, 1), (100, 100), 40).links, Link("ax.0", "x", props(7, 1))]
    one_way = replace(mobile((1, 1), (100, 100), 40), links=tuple(link for link in links if link.origin != "by"))
    picture = compose(one_way)
    assert not spokes(picture)
    assert not {"one-way link", "starts down or changes by events"} & set(texts(picture))
    assert not any(text.startswith("thicker") for text in texts(picture))


def test_the_range_of_loss_is_over_both_directions() -> None:
    def told(there: float, back: float) -> str:
        links = [Link("x", "y", props(5, 10, there)), Link("y", "x", props(5, 10, back))]
        picture = compose(topology("t", [], ["x", "y"], links), Style(Labels.NONE))
        return next(text for text in texts(picture) if text.startswith("packet loss"))

    assert told(0.01, 0.005) == told(0.005, 0.01) == "packet loss: 0.5 to 1 %"
    assert told(0.01, 0.01) == "packet loss: 1 %"


@pytest.mark.parametrize(
    ("when", "action", "hollow"),
    [
        (When(0.0), NodeAction.JOIN, False),
        (When(1.0), NodeAction.JOIN, True),
        (When(0.0, 5.0, 20.0), NodeAction.JOIN, True),
        (When(0.0), NodeAction.CRASH, True),
    ],
)
def test_to_be_there_from_the_start_is_no_event_worth_a_sign(when: When, action: NodeAction, hollow: bool) -> None:
    picture = compose(replace(sites(2, 2), events=(NodeEvent(when, action, ("site0",)),)))
    assert ("hollow: node with events" in texts(picture)) == hollow
    assert any("has events" in shape.tip for shape in picture.shapes) == hollow


def test_events_are_counted_as_files_write_them() -> None:
    change = [LinkEvent(When(5.0), *ends, LinkChange(loss=0.1)) for ends in (("hub0", "hub1"), ("hub1", "hub0"))]
    network = replace(sites(2, 2), events=tuple(change))
    assert "1 event" in texts(compose(network))
    split = PartitionEvent(When(9.0), (("site0",), ("site1",)))
    assert "2 events, 1 of them a partition" in texts(compose(replace(network, events=(*change, split))))


def test_colour_follows_what_was_chosen() -> None:
    links = [*both("x", "y", props(1, 10)), *both("y", "z", props(100, 1000, 0.01))]
    network = topology("t", [], ["x", "y", "z"], links)

    def colours(colour: Colour) -> list[str]:
        return [shape.colour for shape in shapes(compose(network, Style(colour=colour)), "link")]  # type: ignore[union-attr]

    assert colours(Colour.LATENCY) == [ramp(0), ramp(1)]
    assert colours(Colour.RATE) == [ramp(1), ramp(0)]
    assert colours(Colour.LOSS) == [ramp(0), ramp(1)]


def test_distance_on_paper_follows_latency() -> None:
    links = [*both("x", "y", props(5)), *both("y", "z", props(100)), *both("x", "z", props(102))]
    picture = compose(topology("t", [], ["x", "y", "z"], links))
    at = {
        shape.tip[-1]: shape.points[0]
        for shape in shapes(picture, "bridge")
        if isinstance(shape, Polygon) and shape.tip
    }
    assert 2 * math.dist(at["x"], at["y"]) < math.dist(at["y"], at["z"])
    assert 0.7 < math.dist(at["x"], at["z"]) / math.dist(at["y"], at["z"]) < 1.4


def test_a_ring_is_drawn_round() -> None:
    centres = arrange([5.0] * 40, [(at, (at + 1) % 40, 1.0) for at in range(40)], 10.0)
    radii = np.hypot(*(centres - centres.mean(axis=0)).T)
    assert radii.max() / radii.min() < 1.02
    assert math.dist(centres[0], centres[1]) >= 19.0


@pytest.mark.parametrize("count", [2, 3, 60, EXACT_PLACES + 50])
def test_a_layout_keeps_everyone_apart(count: int) -> None:
    edges = [(at, (at * 7 + 1) // 9, 1.0 + at % 3) for at in range(1, count)]
    centres = arrange([4.0] * count, edges, 2.0)
    distances = np.hypot(*(centres[:, None, axis] - centres[None, :, axis] for axis in (0, 1)))
    np.fill_diagonal(distances, np.inf)
    assert np.isfinite(centres).all()
    assert centres.min() >= 0
    assert np.quantile(distances.min(axis=1), 0.05) > 5.0


def test_more_links_than_can_be_drawn_are_thinned_and_the_legend_says_so() -> None:
    count = 210  # 21 945 pairs
    services = [Service(f"s{at}") for at in range(count)]
    network = topology("t", services, [], [Link("*", "*", props(3))])
    picture = compose(network)
    assert len(shapes(picture, "link")) == MOST_LINES
    assert any(text.startswith(f"only {MOST_LINES} of {count * (count - 1) // 2} links") for text in texts(picture))


def test_what_no_link_connects_is_said() -> None:
    assert "3 parts that no link connects" in texts(compose(AWKWARD["pieces"]))
    assert not any("parts that no link" in text for text in texts(compose(small())))


def test_equal_replicas_are_one_group_however_they_are_written() -> None:
    one_by_one = [link for at in range(3) for link in both(f"a.{at}", "x", props(1))]
    parts = anatomy(topology("t", [Service("a", replicas=3)], ["x"], one_by_one))
    assert [group.title for group in parts.groups] == ["a ×3"]
    unlike = [*both("a.0", "x", props(1)), *both("a.1", "x", props(1)), *both("a.2", "x", props(9))]
    parts = anatomy(topology("t", [Service("a", replicas=3)], ["x"], unlike))
    assert [group.title for group in parts.groups] == ["a ×2", "a.2"]


def test_directed_links_are_counted_after_expansion() -> None:
    assert anatomy(sites(4, 5)).directed_links == 4 * 5 * 2 + 12
    assert anatomy(small()).directed_links == 2 * (3 + 1) + 2 * 2 + 2 + 5
    assert anatomy(AWKWARD["among themselves"]).directed_links == 4 * 3


def test_links_among_equal_nodes_are_told() -> None:
    found = texts(compose(AWKWARD["among themselves"]))
    assert "among themselves: 3 ms · 1 Gbps" in found
    assert "node: 1 Gbps (4)" in found
    assert not any("no link" in text for text in found)


def test_a_png_is_an_image_with_something_on_it() -> None:
    from io import BytesIO

    from matplotlib.image import imread

    data = draw(star(53, 7), PictureFormat.PNG)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert b"Software" not in data
    pixels = imread(BytesIO(data), format="png")
    picture = compose(star(53, 7))
    assert pixels.shape[:2] == (2 * picture.height, 2 * picture.width)
    inked = (pixels[:, :, :3] < 0.9).any(axis=2).mean()
    assert 0.01 < inked < 0.5
    orange = (np.abs(pixels[:, :, :3] - np.array([0xD5, 0x5E, 0x00]) / 255) < 0.02).all(axis=2).sum()
    assert 8 * 50 < orange < 8 * 2000


@pytest.mark.processes
def test_only_png_needs_matplotlib() -> None:
    script = (
        "import sys\n"
        "from testbed.topologies.drawing import PictureFormat, draw\n"
        "from testbed.topologies.model import Service, Topology\n"
        "for kind in PictureFormat:\n"
        "    if kind is not PictureFormat.PNG: draw(Topology('t', (Service('a'),), ()), kind)\n"
        "assert not any(name.startswith('matplotlib') for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.extend(attrs)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_page_is_closed_to_the_outside_and_to_hostile_names() -> None:
    text = draw(hostile(), PictureFormat.HTML).decode()
    page = _Page()
    page.feed(text)
    assert not {"script", "link", "img", "iframe", "object", "image", "foreignobject"} & set(page.tags)
    assert not any(name in ("src", "href") or name.startswith("on") for name, _ in page.attributes)
    policy = next(value for name, value in page.attributes if name == "content" and value and "default-src" in value)
    assert policy.startswith("default-src 'none'")
    assert "script-src" not in policy
    assert page.tags.count("svg") == 1
    for name in HOSTILE[:-1]:
        assert name in page.words, name
    assert "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}" in page.words


def test_the_page_has_tables_of_services_and_links() -> None:
    page = _Page()
    page.feed(draw(small(), PictureFormat.HTML).decode())
    assert page.tags.count("table") == 3
    cells = " | ".join(page.words)
    assert "20 ms · 1 Gbps · 0.1 % loss | 35 ms · 200 Mbps" in cells
    assert "one-way, changes by events" in cells
    assert "shared access link" in cells


DOT_TOKEN = re.compile(r'\s+|//[^\n]*|"(?:[^"\\]|\\.)*"|->|[][{}=,;]|[A-Za-z_]\w*|-?\d+(?:\.\d+)?')


def tokens(text: str) -> list[str]:
    """The text as Graphviz's lexer sees it; anything that it would not understand is an error."""
    found, at = [], 0
    while at < len(text):
        match = DOT_TOKEN.match(text, at)
        assert match, text[at : at + 40]
        if match[0].strip() and not match[0].startswith("//"):
            found.append(match[0])
        at = match.end()
    return found


@pytest.mark.parametrize("network", AWKWARD.values(), ids=AWKWARD)
def test_graphviz_text_is_well_formed(network: Topology) -> None:
    found = tokens(draw(network, PictureFormat.DOT).decode())
    assert found[0] == "digraph"
    assert found[2] == "{"
    assert found[-1] == "}"
    assert found.count("{") == found.count("}") == 1
    assert found.count("[") == found.count("]")
    assert found.count(";") == found.count("[")
    edges = found.count("->")
    assert bool(edges) == bool(network.links)


def test_hostile_names_stay_inside_quotes_in_graphviz_text() -> None:
    found = tokens(draw(hostile(), PictureFormat.DOT).decode())
    labels = {after[1:-1] for word, _, after in zip(found, found[1:], found[2:], strict=False) if word == "label"}
    for name in HOSTILE[:-1]:
        assert name.replace("\\", "\\\\").replace('"', '\\"') in labels


@pytest.mark.parametrize("network", AWKWARD.values(), ids=AWKWARD)
def test_mermaid_text_holds_nothing_but_our_syntax(network: Topology) -> None:
    label = r'"(?:[\w .,\-()±·×%…]|#\d+;)*"'
    vertex = rf"  (?:b\d+\[{label}\]:::bridge|[ng]\d+\({label}\)(?::::slow)?)"
    edge = rf"  [bng]\d+ (?:---|-->|-\.-|-\.->)(?:\|{label}\|)? [bng]\d+"
    style = r"  classDef \w+ [\w:#,\-]+"
    lines = draw(network, PictureFormat.MERMAID).decode().splitlines()
    assert lines[0].startswith("%% ")
    assert lines[1] == "flowchart LR"
    for line in lines[2:]:
        assert re.fullmatch(f"{vertex}|{edge}|{style}", line), line


def tiny() -> Topology:
    links = [*both("a", "r", props(1, 100)), Link("b", "r", props(2, 10, 0.01)), Link("r", "b", props(2, 20))]
    return topology("tiny", [Service("a", replicas=2), Service("b")], ["r"], links)


def test_graphviz_text_of_a_tiny_network() -> None:
    assert (
        draw(tiny(), PictureFormat.DOT).decode()
        == """\
digraph "tiny" {
  // 3 nodes · 2 services · 1 bridge · 6 directed links
  graph [layout=neato, overlap=false, splines=true];
  node [fontname="Helvetica", fontsize=11];
  edge [fontname="Helvetica", fontsize=9, dir=none];
  b0 [label="r", shape=box, style=filled, fillcolor=black, fontcolor=white];
  n0 [label="a.0", shape=ellipse, color="#0072b2"];
  n1 [label="a.1", shape=ellipse, color="#0072b2"];
  n2 [label="b", shape=triangle, color="#d55e00"];
  b0 -> n0 [dir=none, len=1.02, label="1 ms · 100 Mbps"];
  b0 -> n1 [dir=none, len=1.02, label="1 ms · 100 Mbps"];
  b0 -> n2 [dir=forward, len=1.05, label="2 ms · 20 Mbps"];
  n2 -> b0 [dir=forward, len=1.05, label="2 ms · 10 Mbps · 1 % loss", color="#d55e00"];
}
"""
    )


def test_mermaid_text_of_a_tiny_network() -> None:
    assert (
        draw(tiny(), PictureFormat.MERMAID).decode()
        == """\
%% 3 nodes · 2 services · 1 bridge · 6 directed links
flowchart LR
  b0["r"]:::bridge
  n0("a.0")
  n1("a.1")
  n2("b"):::slow
  b0 ---|"1 ms · 100 Mbps"| n0
  b0 ---|"1 ms · 100 Mbps"| n1
  b0 -->|"2 ms · 20 Mbps"| n2
  n2 -->|"2 ms · 10 Mbps · 1 % loss"| b0
  classDef bridge fill:#1f2933,color:#ffffff,stroke:#1f2933
  classDef slow stroke:#d55e00,stroke-width:3px
"""
    )


def test_text_graphs_collapse_replicas_when_there_are_many() -> None:
    text = draw(sites(10, 26), PictureFormat.DOT).decode()
    assert 'label="site3 ×26"' in text
    assert text.count(" -> ") == 10 + 45


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.0, "0"), (0.05, "0.05"), (1234.5, "1230"), (36.35, "36.4"), (1e-7, "0.0000001"), (100.0, "100")],
)
def test_numbers_have_three_digits_and_no_exponent(value: float, words: str) -> None:
    assert number(value) == words


def test_quantities_in_words() -> None:
    assert (latency(36.35), latency(0.2), latency(20_000)) == ("36.4 ms", "0.2 ms", "20 s")
    assert (rate(1e9), rate(1.5e6), rate(999.0), rate(math.inf)) == ("1 Gbps", "1.5 Mbps", "999 bps", "unlimited")
    assert (percent(0.0005), percent(1.0)) == ("0.05 %", "100 %")
    assert short("x" * 100).startswith("x" * 17 + "…")
    assert len(short("x" * 100)) <= 26


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_a_scale_reaches_from_end_to_end_and_back(power: float) -> None:
    scale = Scale.of([1.0, 1000.0, math.inf], power)
    assert scale.share(1.0) == pytest.approx(0.0)
    assert scale.share(1000.0) == pytest.approx(1.0)
    assert scale.share(math.inf) == 1.0
    assert scale.value(scale.share(50.0)) == pytest.approx(50.0)
    assert scale.share(10.0) < scale.share(11.0)
    assert (scale.value(0.0), scale.value(1.0)) == (1.0, 1000.0)
