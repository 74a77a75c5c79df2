"""A published graph → sites and links.

Takes a networkx graph, gives `Imported`, touches nothing. A link's latency is the one in the file; otherwise its length
divided by the speed of light in fibre; otherwise the same for the great circle between its ends; otherwise the caller's
default, with a warning. Rates are `LinkSpeedRaw` (Topology Zoo: bits per second) or a text with a unit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from testbed.errors import Finding, UsageProblem, note, warning
from testbed.topologies.generate.geography import Coordinates, fibre_latency_ms, great_circle_km
from testbed.topologies.generate.sites import LEAST_LATENCY_MS, SiteLink, SiteNetwork, connected_parts, counted
from testbed.topologies.graph_import.problems import Graph
from testbed.topologies.graph_import.quantities import (
    MOST_KM,
    bits_per_second,
    finite,
    kilometres,
    milliseconds,
    rate_with_unit,
    what_is_wrong,
)
from testbed.topologies.model import LinkProperties
from testbed.units import MAX_LATENCY_MS, shown

_NAMES = ("label", "name")
_LATENCIES = ("latency", "latency_ms", "delay", "delay_ms")
_DISTANCES = ("dist", "distance", "distance_km", "dist_km", "length", "length_km", "km")
_RATE_IN_BITS = ("LinkSpeedRaw",)
_RATES_WITH_UNIT = ("rate", "bandwidth", "capacity", "speed", "LinkLabel")
_WEIGHT = "weight"
"""Many tools' attribute for an edge's only number."""
_LATITUDES = ("Latitude", "latitude", "lat")
_LONGITUDES = ("Longitude", "longitude", "lon", "lng", "long")
_MOST_DOUBTS = 10
_MOST_ROUTE_FACTOR = 10.0

_Attributes = Mapping[str, object]
_Quantity = Callable[[object], float | None]


@dataclass(frozen=True, slots=True)
class Keys:
    """Edge attributes named by the caller: a latency in milliseconds, a distance in kilometres."""

    latency: str | None = None
    distance: str | None = None


@dataclass(frozen=True, slots=True)
class Imported:
    """The network, and findings about missing properties."""

    network: SiteNetwork
    findings: tuple[Finding, ...]


def interpret(graph: Graph, core: LinkProperties, keys: Keys | None = None, route_factor: float = 1.0) -> Imported:
    """Sites and links of a graph's largest connected component; `core` gives properties that the file lacks.

    Great-circle distances are multiplied by `route_factor`; distances in the file are not.
    """
    if not 1 <= route_factor <= _MOST_ROUTE_FACTOR:
        raise UsageProblem(f"a route factor of {route_factor:g}", f"it lies between 1 and {_MOST_ROUTE_FACTOR:g}")
    reader = _Reader(graph, core, keys or Keys(), route_factor)
    return Imported(reader.network(), tuple(reader.findings()))


class _Reader:
    def __init__(self, graph: Graph, core: LinkProperties, keys: Keys, route_factor: float) -> None:
        self._graph = graph
        self._core = core
        self._latency_keys = (keys.latency,) if keys.latency else _LATENCIES
        self._distance_keys = (keys.distance,) if keys.distance else _DISTANCES
        self._keys = keys
        self._route_factor = route_factor
        self._found: Counter[str] = Counter()
        self._doubts: list[str] = []
        self._sites = list(graph.nodes)
        attributes: list[_Attributes] = [graph.nodes[site] for site in self._sites]
        self._names = [_name(site, each) for site, each in zip(self._sites, attributes, strict=True)]
        geographic = str(graph.graph.get("coordinatesType", "")).lower() == "geographical"
        self._places = [_place(each, geographic) for each in attributes]

    def network(self) -> SiteNetwork:
        links = self._links()
        parts = connected_parts(len(self._sites), links)
        kept = max(parts, key=len)
        self._found["dropped sites"] = len(self._sites) - len(kept)
        position = {site: place for place, site in enumerate(kept)}
        return SiteNetwork(
            tuple(self._names[site] for site in kept),
            tuple(
                SiteLink(position[a], position[b], forth, back)
                for (a, b), (forth, back) in sorted(links.items(), key=lambda item: item[0])
                if a in position
            ),
        )

    def _links(self) -> dict[tuple[int, int], tuple[LinkProperties, LinkProperties]]:
        """Both directions of every linked pair; of parallel edges the fastest."""
        ranks = {site: place for place, site in enumerate(self._sites)}
        directed = self._graph.is_directed()
        found: dict[tuple[int, int], LinkProperties] = {}
        for a_site, b_site, attributes in self._graph.edges(data=True):
            a, b = ranks[a_site], ranks[b_site]
            if a == b:
                self._found["loops"] += 1
                continue
            properties = self._properties(a, b, attributes)
            parallel = (a, b) in found
            self._found["parallel"] += parallel
            for pair in [(a, b)] if directed else [(a, b), (b, a)]:
                if pair not in found or properties.latency_ms < found[pair].latency_ms:
                    found[pair] = properties
        links = {}
        for a, b in found:
            low, high = min(a, b), max(a, b)
            if (b, a) not in found:
                self._found["one-way"] += 1
            forth = found.get((low, high)) or found[high, low]
            links[low, high] = (forth, found.get((high, low)) or forth)
        return links

    def _properties(self, a: int, b: int, attributes: _Attributes) -> LinkProperties:
        rate_bps = self._rate_bps(attributes)
        self._found["rates"] += rate_bps is not None
        self._found["edges"] += 1
        return replace(
            self._core,
            latency_ms=self._latency_ms(a, b, attributes),
            rate_bps=self._core.rate_bps if rate_bps is None else rate_bps,
        )

    def _latency_ms(self, a: int, b: int, attributes: _Attributes) -> float:
        latency_ms = self._told(a, b, attributes, self._latency_keys, milliseconds, MAX_LATENCY_MS, "milliseconds")
        if latency_ms is not None:
            self._found["latencies"] += 1
            return max(LEAST_LATENCY_MS, round(latency_ms, 3))
        distance_km = self._told(a, b, attributes, self._distance_keys, kilometres, MOST_KM, "kilometres")
        if distance_km is not None:
            self._found["distances"] += 1
            return fibre_latency_ms(distance_km)
        here, there = self._places[a], self._places[b]
        if here is not None and there is not None:
            self._found["coordinates"] += 1
            return fibre_latency_ms(great_circle_km(here, there), self._route_factor)
        self._found["defaults"] += 1
        return self._core.latency_ms

    def _told(
        self, a: int, b: int, attributes: _Attributes, keys: Iterable[str], read: _Quantity, most: float, unit: str
    ) -> float | None:
        """The value of the first plausible attribute; implausible ones before it are recorded."""
        for key in keys:
            value = attributes.get(key)
            if value is None or (isinstance(value, str) and not value.strip()):
                continue
            number = read(value)
            if number is not None:
                return number
            self._found["doubts"] += 1
            if len(self._doubts) < _MOST_DOUBTS:
                ends = f"edge from {shown(self._names[a])} to {shown(self._names[b])}"
                self._doubts.append(f"{ends}: {shown(key)} {what_is_wrong(value, most, unit)}")
        return None

    def _rate_bps(self, attributes: _Attributes) -> float | None:
        raw = _first(attributes, _RATE_IN_BITS, bits_per_second)
        return raw if raw is not None else _first(attributes, _RATES_WITH_UNIT, rate_with_unit)

    def _doubtful(self) -> Iterable[Finding]:
        hint = "it is left out of account: put it right, or name other attributes with --latency-key and --distance-key"
        for words in self._doubts:
            yield warning("import-value", words, hint)
        if (more := self._found["doubts"] - len(self._doubts)) > 0:
            yield warning("import-value", f"{counted(more, 'more value')} of latencies and distances make no sense")

    def findings(self) -> Iterable[Finding]:
        count = self._found
        yield from self._doubtful()
        for key in (self._keys.latency, self._keys.distance):
            if key and not any(key in attributes for _a, _b, attributes in self._graph.edges(data=True)):
                yield warning("import-key", f"no edge has the attribute `{key}`", "see how the file calls it")
        weighed = sum(_WEIGHT in attributes for _a, _b, attributes in self._graph.edges(data=True))
        if weighed and _WEIGHT not in (self._keys.latency, self._keys.distance):
            yield warning(
                "import-weight",
                f"{counted(weighed, 'link')} {'has' if weighed == 1 else 'have'} a weight that may mean anything",
                "--latency-key weight takes it as milliseconds, --distance-key weight as kilometres",
            )
        if count["dropped sites"]:
            left_out = f"{count['dropped sites']} of {counted(len(self._sites), 'site')} {_are(count['dropped sites'])}"
            message = f"the graph is in several parts: {left_out} left out"
            yield warning("import-unconnected", message, "only the largest part is taken, so that every node has a way")
        if count["defaults"]:
            yield warning(
                "import-default-latency",
                f"{count['defaults']} of {counted(count['edges'], 'link')} "
                f"{'has' if count['defaults'] == 1 else 'have'} neither a latency, a distance nor coordinates at "
                f"both ends: {'it gets' if count['defaults'] == 1 else 'they get'} {self._core.latency_ms:g} ms",
                "give another default with --latency, or name the attribute with --latency-key or --distance-key",
            )
        sources = {"latencies": "as given", "distances": "from distances", "coordinates": "from coordinates"}
        told = ", ".join(f"{count[key]} {words}" for key, words in sources.items() if count[key])
        if told:
            yield note("import-latency", f"latencies: {told}")
        if count["rates"]:
            yield note("import-rate", f"rates: {count['rates']} of {count['edges']} as given, the others by default")
        if count["parallel"]:
            parallel = f"{counted(count['parallel'], 'parallel link')} {_are(count['parallel'])}"
            yield note("import-parallel", f"{parallel} left out: the fastest of each stays")
        if count["loops"]:
            loops = f"{counted(count['loops'], 'link')} from a site to itself {_are(count['loops'])}"
            yield note("import-loop", f"{loops} left out")
        if count["one-way"]:
            given = f"{counted(count['one-way'], 'link')} {_are(count['one-way'])} given one way only"
            yield note("import-one-way", f"{given}: taken as two-way")


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _first(attributes: _Attributes, keys: Iterable[str], read: _Quantity) -> float | None:
    """The value of the first plausible attribute."""
    for key in keys:
        value = attributes.get(key)
        if value is not None and (number := read(value)) is not None:
            return number
    return None


def _name(site: object, attributes: _Attributes) -> str:
    for key in _NAMES:
        if isinstance(name := attributes.get(key), str) and name.strip():
            return name
    return str(site)


def _place(attributes: _Attributes, geographic: bool) -> Coordinates | None:
    """A site's coordinates: named degrees, `pos` = [longitude, latitude], or x and y of a geographic file."""
    position = attributes.get("pos")
    if isinstance(position, list | tuple) and len(position) == 2:
        longitude, latitude = position
    elif geographic and "x" in attributes and "y" in attributes:
        longitude, latitude = attributes["x"], attributes["y"]
    else:
        latitude = next((attributes[key] for key in _LATITUDES if key in attributes), None)
        longitude = next((attributes[key] for key in _LONGITUDES if key in attributes), None)
    north, east = _degrees(latitude, 90.0), _degrees(longitude, 360.0)
    return None if north is None or east is None else Coordinates(north, east)


def _degrees(value: object, most: float) -> float | None:
    number = finite(value)
    return number if number is not None and abs(number) <= most else None
