"""Our paths against the tables that Kollaps' own Python computed for its example topologies.

In every one of these files the shortest routes of all pairs are unique in hops, so that Kollaps' choice is not
arbitrary and all properties must agree; the tests check that too. Link ids are Kollaps' own and are not compared.
(`ping__topology.xml` has links without `download`, which its Python takes for two-way and we, as its emulation core,
for one-way: the file declares both directions, and the properties are the same.)
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from testbed.network.graph import expand
from testbed.network.paths import Paths, compute_paths
from testbed.topologies.load import load
from testbed.topologies.model import Bridge, Link, LinkProperties, Service, Topology

REFERENCE = Path(__file__).parents[2] / ".." / "shared" / "reference"
TABLES = sorted((REFERENCE / "paths").glob("*.json"))
pytestmark = pytest.mark.skipif(not TABLES, reason="the reference tables are not beside this checkout")


def agree(paths: Paths, table: dict[str, dict[str, dict[str, float]]]) -> None:
    """Every pair of the table, and no other, has a path with the table's properties."""
    ranks = {name: rank for rank, name in enumerate(paths.network.names[: paths.network.node_count])}
    assert set(table) == set(ranks)
    for source, row in table.items():
        reached = {name for name, rank in ranks.items() if paths.reachable[ranks[source], rank]}
        assert set(row) == reached
        for dest, kollaps in row.items():
            pair = ranks[source], ranks[dest]
            assert paths.latency_ms[pair] == pytest.approx(kollaps["latency_ms"], abs=1e-9)
            assert paths.jitter_ms[pair] == pytest.approx(kollaps["jitter_ms"], abs=1e-9)
            assert paths.loss[pair] == pytest.approx(kollaps["drop"], abs=1e-12)
            assert paths.bandwidth_bps[pair] == kollaps["bw_bps"]


@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.stem)
def test_the_files_paths_are_those_of_kollaps(table: Path) -> None:
    topology = load(REFERENCE / "xml" / f"{table.stem}.xml").require()
    paths = compute_paths(expand(topology))
    agree(paths, json.loads(table.read_text())["paths"])
    assert not paths.tied.any()


@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.stem)
def test_the_tables_own_links_collapse_to_the_tables_paths(table: Path) -> None:
    """Independent of the XML reader: the links as Kollaps expanded them."""
    content = json.loads(table.read_text())
    replicas: dict[str, int] = {}
    for node in content["paths"]:
        service = node.rpartition(".")[0]
        replicas[service] = replicas.get(service, 0) + 1
    ends = {end for each in content["links"] for end in (each["src"], each["dst"])}
    topology = Topology(
        "reference",
        tuple(Service(name, replicas=count) for name, count in replicas.items()),
        tuple(
            Link(
                each["src"],
                each["dst"],
                LinkProperties(each["latency"], each["bps"], jitter_ms=each["jitter"], loss=each["drop"]),
            )
            for each in content["links"]
        ),
        tuple(Bridge(name) for name in sorted(ends - set(content["paths"]))),
    )
    paths = compute_paths(expand(topology))
    agree(paths, content["paths"])
    assert all(math.isfinite(rate) for rate in paths.bandwidth_bps[paths.reachable])


def test_every_reference_file_has_a_table() -> None:
    assert {path.stem for path in (REFERENCE / "xml").glob("*.xml")} == {path.stem for path in TABLES}
