"""Graphs that others have published: what is taken from them, what is said, and what is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import networkx as nx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed.errors import Finding, InvalidInput, Severity, UsageProblem
from testbed.topologies.generate.populate import Population, populate
from testbed.topologies.generate.sites import SiteNetwork
from testbed.topologies.graph_import import (
    Imported,
    Keys,
    files,
    interpret,
    read_graph,
    read_topohub,
    renames,
    topohub,
)
from testbed.topologies.load import load_bytes
from testbed.topologies.model import LinkProperties
from testbed.topologies.source import Form
from testbed.topologies.write import write_text
from tests.examples import examples

CORE = LinkProperties(latency_ms=10.0, rate_bps=1e9)

ZOO = """<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="Latitude" attr.type="double" for="node" id="lat" />
  <key attr.name="Longitude" attr.type="double" for="node" id="lon" />
  <key attr.name="label" attr.type="string" for="node" id="label" />
  <key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="raw" />
  <graph edgedefault="undirected">
    <node id="0"><data key="lat">40.71427</data><data key="lon">-74.00597</data><data key="label">New York</data></node>
    <node id="1"><data key="lat">41.85003</data><data key="lon">-87.65005</data><data key="label">Chicago</data></node>
    <node id="2"><data key="label">Elsewhere</data></node>
    <edge source="0" target="1"><data key="raw">10000000000.0</data></edge>
    <edge source="1" target="2" />
  </graph>
</graphml>
"""

GML = """graph [
  directed 0
  node [ id 0 label "London" Latitude 51.5 Longitude -0.12 ]
  node [ id 1 label "London" Latitude 48.85 Longitude 2.35 ]
  edge [ source 0 target 1 LinkSpeedRaw 2.5E9 ]
]
"""


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def latencies(imported: Imported) -> list[float]:
    return [link.forth.latency_ms for link in imported.network.links if link.forth]


def codes(findings: tuple[Finding, ...]) -> dict[str, Severity]:
    return {finding.code: finding.severity for finding in findings}


def node_link(edges: list[dict[str, object]], count: int = 3, **graph: object) -> dict[str, object]:
    return {"nodes": [{"id": number} for number in range(count)], "edges": edges, **graph}


def from_json(folder: Path, document: object, keys: Keys | None = None, route_factor: float = 1.0) -> Imported:
    return interpret(read_graph(write(folder, "g.json", json.dumps(document))), CORE, keys, route_factor)


# What is taken


def test_topology_zoo_graphml(tmp_path: Path) -> None:
    imported = interpret(read_graph(write(tmp_path, "zoo.graphml", ZOO)), CORE)
    assert imported.network.names == ("New York", "Chicago", "Elsewhere")
    near, far = imported.network.links
    assert near.forth == near.back
    assert near.forth is not None
    assert near.forth.latency_ms == pytest.approx(1145 / 200, abs=0.05)
    assert near.forth.rate_bps == 10e9
    assert far.forth == CORE
    assert codes(imported.findings)["import-default-latency"] is Severity.WARNING


def test_the_route_factor_makes_great_circles_longer_and_nothing_else(tmp_path: Path) -> None:
    graph = read_graph(write(tmp_path, "zoo.graphml", ZOO))
    straight, winding = interpret(graph, CORE), interpret(graph, CORE, route_factor=2.0)
    assert latencies(winding) == [pytest.approx(2 * latencies(straight)[0], abs=0.002), 10.0]
    for factor in (0.5, 11.0, float("nan")):
        with pytest.raises(UsageProblem):
            interpret(graph, CORE, route_factor=factor)


def test_gml_with_two_nodes_of_one_label(tmp_path: Path) -> None:
    imported = interpret(read_graph(write(tmp_path, "x.gml", GML)), CORE)
    assert imported.network.names == ("London", "London")
    topology = populate(imported.network, "x", Population(2))
    assert [node.name for node in topology.nodes] == ["london.0", "london-2.0"]
    (link,) = imported.network.links
    assert link.forth is not None
    assert (round(link.forth.latency_ms, 1), link.forth.rate_bps) == (1.7, 2.5e9)


def test_a_distance_goes_before_coordinates_and_a_latency_before_both(tmp_path: Path) -> None:
    edges: list[dict[str, object]] = [
        {"source": 0, "target": 1, "dist": 500, "latency": "7ms"},
        {"source": 1, "target": 2, "dist": 500},
        {"source": 0, "target": 2},
    ]
    document = node_link(edges)
    document["nodes"] = [{"id": number, "pos": [number * 10, 0]} for number in range(3)]
    imported = from_json(tmp_path, document)
    assert [(link.a, link.b) for link in imported.network.links] == [(0, 1), (0, 2), (1, 2)]
    assert latencies(imported) == [7.0, pytest.approx(11.12, abs=0.01), 2.5]
    assert codes(imported.findings) == {"import-latency": Severity.NOTE}
    assert imported.findings[0].message == "latencies: 1 as given, 1 from distances, 1 from coordinates"


def test_positions_are_longitude_then_latitude(tmp_path: Path) -> None:
    document = node_link([{"source": 0, "target": 1}])
    document["nodes"] = [{"id": 0, "pos": [0, 60]}, {"id": 1, "pos": [20, 60]}]
    assert latencies(from_json(tmp_path, document)) == [pytest.approx(5.55, abs=0.05)]  # half of the equator's 11.1


def test_x_and_y_are_places_only_where_the_file_says_so(tmp_path: Path) -> None:
    document = node_link([{"source": 0, "target": 1}])
    document["nodes"] = [{"id": 0, "x": 0, "y": 0}, {"id": 1, "x": 10, "y": 0}]
    assert latencies(from_json(tmp_path, document)) == [10.0]
    document["graph"] = {"coordinatesType": "geographical"}
    assert latencies(from_json(tmp_path, document)) == [pytest.approx(5.56, abs=0.01)]


def test_the_caller_may_name_the_attributes(tmp_path: Path) -> None:
    document = node_link([{"source": 0, "target": 1, "weight": 300, "w2": 4}, {"source": 1, "target": 2, "weight": 50}])
    assert latencies(from_json(tmp_path, document)) == [10.0, 10.0]
    assert latencies(from_json(tmp_path, document, Keys(distance="weight"))) == [1.5, 0.25]
    assert latencies(from_json(tmp_path, document, Keys(latency="w2", distance="weight"))) == [4.0, 0.25]
    assert "import-key" in codes(from_json(tmp_path, document, Keys(latency="nope")).findings)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (-1, "`-1`, which is negative"),
        ("-0.5", "`-0.5`, which is negative"),
        ("x", "`x`, which is no number"),
        (True, "`True`, which is no number"),
        (1e300, "`1e+300`: more than"),
        ([1], "`[1]`, which is no number"),
        ({"a": 1}, "which is no number"),
    ],
)
def test_a_senseless_value_is_told_and_then_as_good_as_none(tmp_path: Path, value: object, words: str) -> None:
    edge: dict[str, object] = {"source": 0, "target": 1, "dist": value, "latency": value, "LinkSpeedRaw": value}
    imported = from_json(tmp_path, node_link([edge], count=2))
    assert [link.forth for link in imported.network.links] == [CORE]
    told = [finding for finding in imported.findings if finding.code == "import-value"]
    assert [finding.severity for finding in told] == [Severity.WARNING] * 2
    for finding, key in zip(told, ("latency", "dist"), strict=True):
        assert finding.message.startswith(f"edge from `0` to `1`: `{key}` is ")
        assert words in finding.message


@pytest.mark.parametrize("value", [None, "", " "])
def test_an_empty_value_is_no_mistake(tmp_path: Path, value: object) -> None:
    edge: dict[str, object] = {"source": 0, "target": 1, "dist": value, "latency": value}
    assert "import-value" not in codes(from_json(tmp_path, node_link([edge], count=2)).findings)


def test_rates_taken_for_distances_are_told_and_not_all_of_them(tmp_path: Path) -> None:
    edges: list[dict[str, object]] = [{"source": 0, "target": at, "LinkSpeedRaw": 1e9 + at} for at in range(1, 41)]
    imported = from_json(tmp_path, node_link(edges, count=41), Keys(distance="LinkSpeedRaw"))
    told = [finding.message for finding in imported.findings if finding.code == "import-value"]
    assert len(told) == 11
    assert told[0] == "edge from `0` to `1`: `LinkSpeedRaw` is `1000000001.0`: more than 100 000 kilometres"
    assert told[-1] == "30 more values of latencies and distances make no sense"
    assert set(latencies(imported)) == {10.0}


def test_one_link_is_not_several(tmp_path: Path) -> None:
    edges: list[dict[str, object]] = [
        {"source": 0, "target": 1, "dist": 4},
        {"source": 0, "target": 1, "dist": 2},
        {"source": 1, "target": 1},
        {"source": 1, "target": 2},
    ]
    told = " | ".join(finding.message for finding in from_json(tmp_path, node_link(edges, count=4)).findings)
    assert "1 of 3 links has neither" in told
    assert "it gets 10 ms" in told
    assert "1 parallel link is left out" in told
    assert "1 link from a site to itself is left out" in told
    assert "1 of 4 sites is left out" in told
    one_way = from_json(tmp_path, node_link([{"source": 0, "target": 1}], count=2, directed=True)).findings
    assert any(finding.message == "1 link is given one way only: taken as two-way" for finding in one_way)


def renamed(*sites: str) -> list[str]:
    network = SiteNetwork(sites, ())
    topology = populate(network, "t", Population(len(sites)))
    assert len(topology.services) == len(sites)
    return [finding.message for finding in renames(network, topology)]


def test_sites_that_could_not_keep_their_names_are_told() -> None:
    assert renamed("a", "b-2") == []
    assert renamed("a", "A", "日本") == ["2 of 3 sites have other names here: `A` is `a-2`, `日本` is `site`"]
    assert renamed("Paris") == ["1 of 1 site has another name here: `Paris` is `paris`"]
    many = renamed(*(f"City {at}" for at in range(9)), "東京")[0]
    assert many.startswith("10 of 10 sites have other names here: `東京` is `site`, `City 0` is `city-0`, ")
    assert many.endswith("`City 3` is `city-3` and 5 more")


def test_rates_need_a_unit_unless_the_collection_fixes_it(tmp_path: Path) -> None:
    edges: list[dict[str, object]] = [
        {"source": 0, "target": 1, "capacity": 2500},
        {"source": 1, "target": 2, "bandwidth": "2.5 Gbps"},
    ]
    imported = from_json(tmp_path, node_link(edges))
    assert [link.forth.rate_bps for link in imported.network.links if link.forth] == [1e9, 2.5e9]


def test_parallel_edges_loops_and_lost_parts_are_left_out_and_told(tmp_path: Path) -> None:
    edges: list[dict[str, object]] = [
        {"source": 0, "target": 1, "dist": 400},
        {"source": 1, "target": 0, "dist": 200},
        {"source": 1, "target": 1},
        {"source": 3, "target": 4, "dist": 100},
        {"source": 1, "target": 2, "dist": 600},
    ]
    imported = from_json(tmp_path, node_link(edges, count=5))
    assert imported.network.names == ("0", "1", "2")
    assert latencies(imported) == [1.0, 3.0]
    assert {"import-parallel", "import-loop", "import-unconnected"} <= codes(imported.findings).keys()
    assert codes(imported.findings)["import-unconnected"] is Severity.WARNING


def test_directed_edges_keep_what_each_direction_says(tmp_path: Path) -> None:
    edges: list[dict[str, object]] = [
        {"source": 1, "target": 0, "dist": 200},
        {"source": 0, "target": 1, "dist": 400},
        {"source": 2, "target": 1, "dist": 600},
    ]
    imported = from_json(tmp_path, node_link(edges, directed=True))
    both = [
        (link.forth.latency_ms, link.back.latency_ms) for link in imported.network.links if link.forth and link.back
    ]
    assert both == [(2.0, 1.0), (3.0, 3.0)]
    assert "import-one-way" in codes(imported.findings)
    assert "import-parallel" not in codes(imported.findings)


def test_an_edge_list_tells_its_quantities_by_their_units(tmp_path: Path) -> None:
    text = "# a comment\nparis london 450km\nlondon,dublin,5ms,10Gbps\n\ndublin cork  # nothing known\n"
    imported = interpret(read_graph(write(tmp_path, "e.txt", text)), CORE)
    assert imported.network.names == ("paris", "london", "dublin", "cork")
    assert latencies(imported) == [2.25, 5.0, 10.0]
    assert imported.network.links[1].forth == LinkProperties(5.0, 10e9)


def test_edge_lists_as_networkx_writes_them(tmp_path: Path) -> None:
    graph: nx.Graph[str] = nx.Graph()
    graph.add_edge("a", "b", latency=5.0, name="a long one")
    graph.add_edge("b", "c", latency=2)
    graph.add_edge("c", "d")
    nx.write_edgelist(graph, tmp_path / "data.txt")
    imported = interpret(read_graph(tmp_path / "data.txt"), CORE)
    assert latencies(imported) == [5.0, 2.0, 10.0]
    weighted: nx.Graph[str] = nx.Graph()
    weighted.add_weighted_edges_from([("a", "b", 2.5), ("b", "c", 7)])
    nx.write_weighted_edgelist(weighted, tmp_path / "weighted.txt")
    plain = interpret(read_graph(tmp_path / "weighted.txt"), CORE)
    assert (latencies(plain), "import-weight" in codes(plain.findings)) == ([10.0, 10.0], True)
    meant = interpret(read_graph(tmp_path / "weighted.txt"), CORE, Keys(latency="weight"))
    assert (latencies(meant), "import-weight" in codes(meant.findings)) == ([2.5, 7.0], False)


def test_older_json_says_links_instead_of_edges(tmp_path: Path) -> None:
    document = {"nodes": [{"id": "a"}, {"id": "b"}], "links": [{"source": "a", "target": "b"}]}
    assert len(from_json(tmp_path, document).network.links) == 1


@pytest.mark.parametrize("ending", ["graphml", "gml", "json"])
def test_what_networkx_writes_is_read(tmp_path: Path, ending: str) -> None:
    graph = nx.random_regular_graph(3, 10, seed=1)
    nx.set_edge_attributes(graph, dict.fromkeys(graph.edges, 420.0), "dist")
    path = tmp_path / f"g.{ending}"
    if ending == "json":
        path.write_text(json.dumps(nx.node_link_data(graph, edges="edges")))
    else:
        (nx.write_graphml if ending == "graphml" else nx.write_gml)(graph, path)
    imported = interpret(read_graph(path), CORE)
    assert latencies(imported) == [2.1] * 15
    topology = populate(imported.network, "g", Population(20, kollaps=True))
    loaded = load_bytes(write_text(topology, Form.XML).encode(), Form.XML, "g.xml")
    assert (loaded.topology, loaded.findings) == (topology, ())


# What is refused


def refused(path: Path) -> tuple[Finding, ...]:
    with pytest.raises(InvalidInput) as caught:
        read_graph(path)
    assert caught.value.file == str(path)
    assert all(finding.severity is Severity.ERROR for finding in caught.value.findings)
    return caught.value.findings


BOMB = """<?xml version="1.0"?>
<!DOCTYPE lolz [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>
<graphml>&b;</graphml>
"""


@pytest.mark.parametrize(
    ("name", "text", "code", "line"),
    [
        ("bomb.graphml", BOMB, "doctype", 2),
        ("bomb.xml", BOMB, "doctype", 2),
        ("external.graphml", '<!DOCTYPE g SYSTEM "file:///etc/passwd">\n<graphml/>', "doctype", 1),
        ("open.graphml", "<graphml>\n<graph>\n</graphml>", "syntax", 3),
        ("deep.graphml", "<a>" * 60 + "</a>" * 60, "too-deep", 1),
        ("encoding.graphml", '<?xml version="1.0" encoding="klingon"?><graphml/>', "encoding", 1),
        ("no-key.graphml", ZOO.replace('id="raw"', 'id="other"'), "graph-syntax", 1),
        ("no-graph.graphml", "<graphml/>", "graph-syntax", 1),
        ("rubbish.graphml", b"\x00\xff\x13", "syntax", 1),
        ("open.gml", "graph [\n node [ id 0 ]\n", "graph-syntax", 3),
        ("token.gml", "graph [\n node [ id 0 @ ]\n]", "graph-syntax", 2),
        ("deep.gml", "graph " + "[ a " * 3000, "too-deep", 1),
        ("rubbish.gml", b"graph [\n\xff", "encoding", 2),
        ("end.json", '{"nodes": [\n', "syntax", 2),
        ("deep.json", "[" * 200_000, "syntax", 1),
        ("nan.json", '{"nodes": NaN}', "syntax", 1),
        ("digits.json", '{"nodes": ' + "9" * 10_000 + "}", "syntax", 1),
        ("list.json", "[]", "graph-shape", 1),
        ("nodes.json", '{"nodes": 3, "edges": []}', "graph-shape", 1),
        ("empty.json", '{"nodes": [], "edges": []}', "graph-empty", 1),
        ("empty.txt", "# nothing\n", "graph-empty", 1),
        ("unit.txt", "a b 5x\n", "bad-value", 1),
        ("text.txt", "a b {'latency': 5ms}\n", "edge-list", 1),
        ("code.txt", "a b {'latency': print(1)}\n", "edge-list", 1),
        ("word.txt", "a b\nc\n", "edge-list", 2),
    ],
)
def test_a_bad_file_is_a_finding_with_its_place(
    tmp_path: Path, name: str, text: str | bytes, code: str, line: int
) -> None:
    (finding,) = refused(write(tmp_path, name, text))
    assert (finding.code, finding.where.line) == (code, line)


def test_all_mistakes_of_a_json_graph_are_reported_at_once(tmp_path: Path) -> None:
    document = {
        "nodes": [{"id": 1}, {"id": 1}, {}, {"id": [2]}, 7],
        "edges": [{"source": 1, "target": 5}, {"source": 1}, {"source": [1], "target": 1}, None],
    }
    assert len(refused(write(tmp_path, "g.json", json.dumps(document)))) == 8


def test_large_files_and_graphs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 100)
    assert refused(write(tmp_path, "g.gml", "#" * 101))[0].code == "too-large"
    monkeypatch.undo()
    star = "".join(f"hub n{number}\n" for number in range(20_001))
    assert refused(write(tmp_path, "g.txt", star))[0].code == "graph-too-large"


def test_missing_files_and_unknown_endings_are_usage_problems(tmp_path: Path) -> None:
    for path in (tmp_path / "none.gml", tmp_path, write(tmp_path, "g.dot", "graph {}")):
        with pytest.raises(UsageProblem):
            read_graph(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(150))
@given(
    sample=st.sampled_from(
        [("f.graphml", ZOO), ("f.gml", GML), ("f.json", json.dumps(node_link([{"source": 0, "target": 1}])))]
    ),
    cut=st.tuples(st.integers(0, 900), st.integers(0, 60)),
    inserted=st.binary(max_size=12) | st.sampled_from([b"[", b"]", b'"', b"<", b"{", b"-", b"1e999", b"&a;", b"null"]),
)
def test_a_damaged_file_raises_nothing_that_is_not_ours(
    tmp_path: Path, sample: tuple[str, str], cut: tuple[int, int], inserted: bytes
) -> None:
    name, text = sample
    data = text.encode()
    start = cut[0] % len(data)
    path = write(tmp_path, name, data[:start] + inserted + data[start + cut[1] :])
    try:
        imported = interpret(read_graph(path), CORE)
        topology = populate(imported.network, "f", Population(3))
    except InvalidInput:
        return
    assert load_bytes(write_text(topology, Form.YAML).encode(), Form.YAML, "f.yaml").topology == topology


# The reference topologies of an optional package


def fake_package(get: Callable[[str], object]) -> ModuleType:
    package = ModuleType("topohub")
    package.__spec__ = SimpleNamespace(name="topohub")  # type: ignore[assignment]  # what find_spec looks at
    package.get = get  # type: ignore[attr-defined]
    return package


def test_without_the_package_the_hint_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topohub, "find_spec", lambda _name: None)
    with pytest.raises(UsageProblem) as caught:
        read_topohub("sndlib/germany50")
    assert (
        caught.value.hint
        == "install it with `scripts/venv topohub` in the checkout, or `pip install topohub` beside testbed"
    )


def test_a_reference_topology_is_read_like_any_node_link_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    document = {
        "directed": False,
        "multigraph": False,
        "graph": {"name": "x", "demands": {}},
        "nodes": [{"name": "Aachen", "pos": [6.04, 50.76], "id": 0}, {"name": "Köln", "pos": [6.96, 50.94], "id": 1}],
        "edges": [{"dist": 61.63, "ecmp_fwd": {"uni": 1.0}, "source": 0, "target": 1}],
    }
    monkeypatch.setitem(sys.modules, "topohub", fake_package({"sndlib/x": document}.__getitem__))
    imported = interpret(read_topohub("sndlib/x"), CORE)
    assert imported.network.names == ("Aachen", "Köln")
    assert latencies(imported) == [0.308]
    with pytest.raises(UsageProblem, match="no reference topology"):
        read_topohub("sndlib/y")


@pytest.mark.parametrize("key", ["../../etc/x", "sndlib", "/etc/passwd", "a/../b", "a/b\x00", "", "a/./b"])
def test_a_key_never_leaves_the_package(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    asked: list[str] = []
    monkeypatch.setitem(sys.modules, "topohub", fake_package(lambda name: asked.append(name)))
    with pytest.raises(UsageProblem):
        read_topohub(key)
    assert asked == []
