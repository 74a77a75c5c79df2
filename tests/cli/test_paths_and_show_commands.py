"""`testbed paths` and `testbed show`: what they print, in every format, and what they refuse."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from testbed.cli import paths as paths_command
from testbed.cli.main import main
from testbed.errors import ExitCode
from testbed.network import summary as summary_module
from testbed.network.graph import Network
from testbed.network.paths import Paths, compute_paths

TOPOLOGY = """
name: small
services:
  a: {replicas: 2}
  b: {}
  island: {}
bridges: [r1, r2]
links:
  - {from: a, to: r1, latency: 1ms, up: 10Mbps, down: 20Mbps}
  - {from: r1, to: r2, latency: 0.1ms, jitter: 0.02ms, loss: 1%, rate: unlimited}
  - {from: r2, to: b, latency: 0.2ms, rate: unlimited}
events:
  - {at: 5s, link: [r1, r2], loss: 2%}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "small.yaml"
    path.write_text(TOPOLOGY)
    return str(path)


def run(*arguments: str, expect: ExitCode = ExitCode.OK) -> Result:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == expect, result.output
    return result


def pairs(result: Result) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["from"], row["to"]): row for row in json.loads(result.stdout)["paths"]}


def test_paths_as_json(file: str) -> None:
    content = json.loads(run("paths", file, "--format", "json").stdout)
    assert list(content) == ["nodes", "routing", "paths"]
    assert content["nodes"] == ["a.0", "a.1", "b.0", "island.0"]
    assert content["routing"] == "hops"
    nodes = content["nodes"]
    expected = [(source, dest) for source in nodes for dest in nodes if source != dest]
    assert [(row["from"], row["to"]) for row in content["paths"]] == expected
    found = {(row["from"], row["to"]): row for row in content["paths"]}
    assert found["a.0", "b.0"] == {
        "from": "a.0",
        "to": "b.0",
        "latency_ms": 1.3,
        "jitter_ms": 0.02,
        "loss": 0.01,
        "bandwidth_bps": 10_000_000,
        "hops": 3,
        "reachable": True,
    }
    assert found["b.0", "a.1"]["bandwidth_bps"] == 20_000_000
    assert found["a.1", "island.0"] == {
        "from": "a.1",
        "to": "island.0",
        "latency_ms": None,
        "jitter_ms": None,
        "loss": 1.0,
        "bandwidth_bps": 0,
        "hops": None,
        "reachable": False,
    }


def test_an_unlimited_bandwidth_is_null(tmp_path: Path) -> None:
    path = tmp_path / "fast.yaml"
    path.write_text("services: {a: {}, b: {}}\nlinks: [{from: a, to: b, latency: 1ms, rate: unlimited}]\n")
    row = pairs(run("paths", str(path), "--format", "json"))["a.0", "b.0"]
    assert (row["bandwidth_bps"], row["reachable"]) == (None, True)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--from", "b.0"], [("b.0", "a.0"), ("b.0", "a.1"), ("b.0", "island.0")]),
        (["--from", "a"], [(f"a.{i}", to) for i in (0, 1) for to in (f"a.{1 - i}", "b.0", "island.0")]),
        (["--from", "a.*", "--to", "b"], [("a.0", "b.0"), ("a.1", "b.0")]),
        (["--to", "a.1"], [("a.0", "a.1"), ("b.0", "a.1"), ("island.0", "a.1")]),
        (["--from", "b", "--to", "b"], []),
    ],
)
def test_only_the_pairs_asked_for(file: str, options: list[str], expected: list[tuple[str, str]]) -> None:
    every = pairs(run("paths", file, "--format", "json"))
    chosen = pairs(run("paths", file, "--format", "json", *options))
    assert sorted(chosen) == sorted(expected)
    assert chosen == {pair: every[pair] for pair in chosen}


@pytest.mark.parametrize("option", ["--from", "--to"])
def test_an_unknown_node_is_a_usage_problem(file: str, option: str) -> None:
    result = run("paths", file, option, "ilsand", expect=ExitCode.USAGE)
    assert f"{option}: there is no node `ilsand`" in result.stderr
    assert "did you mean `island`?" in result.stderr
    assert result.stdout == ""
    run("paths", file, option, "r1", expect=ExitCode.USAGE)


def test_csv_has_the_same_rows_as_json(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary_module, "_BLOCK_PAIRS", 5)
    rows = list(csv.DictReader(io.StringIO(run("paths", file, "--format", "csv").stdout)))
    found = pairs(run("paths", file, "--format", "json"))
    assert len(rows) == len(found) == 12
    for row in rows:
        expected = found[row["from"], row["to"]]
        assert row == {key: in_csv(value) for key, value in expected.items()}


def in_csv(value: object) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def test_the_table_shows_the_route(file: str) -> None:
    lines = run("paths", file).stdout.splitlines()
    assert any("a.0 → r1 → r2 → b.0" in line and "1.3ms" in line and "10Mbps" in line for line in lines)
    assert sum("no path" in line for line in lines) == 6


def large(tmp_path: Path, replicas: int) -> str:
    path = tmp_path / "large.yaml"
    services = f"services: {{a: {{replicas: {replicas // 2}}}, b: {{replicas: {replicas // 2}}}}}"
    links = "links: [{from: a, to: r, latency: 1ms, rate: 1Gbps}, {from: b, to: r, latency: 2ms, rate: 1Gbps}]"
    path.write_text(f"{services}\nbridges: [r]\n{links}\n")
    return str(path)


def ends(table: str) -> tuple[list[str], list[str]]:
    """The two sides of a table's pairs."""
    found = [line.split()[:2] for line in table.splitlines() if " → " in line]
    return sorted({source for source, _ in found}), sorted({dest for _, dest in found})


def test_a_table_of_few_pairs_has_all_and_says_nothing(file: str) -> None:
    result = run("paths", file)
    assert len([line for line in result.stdout.splitlines() if " → " in line or "no path" in line]) == 12
    assert result.stderr == ""


def test_a_table_of_many_pairs_is_a_sample_and_says_how_to_get_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked_out = []

    def computed(network: Network, sources: Sequence[int]) -> Paths:
        worked_out.append(len(sources))
        return compute_paths(network, sources)

    monkeypatch.setattr(summary_module, "compute_paths", computed)
    many = large(tmp_path, 64)
    result = run("paths", many)
    origins, dests = ends(result.stdout)
    assert origins == dests == sorted(f"{service}.{at}" for service in "ab" for at in range(0, 32, 4))
    assert result.stdout.count(" → ") == 240 * 2
    assert result.stderr == (
        "a sample: 240 of 4032 pairs, from 16 of 64 nodes to 16 of 64 nodes; "
        "all of them: --format csv or --format json; fewer: --from NODE, --to NODE\n"
    )
    assert worked_out == [16]
    assert len(pairs(run("paths", many, "--format", "json"))) == 4032
    assert len(run("paths", many, "--format", "csv").stdout.splitlines()) == 4033


def test_a_side_with_few_nodes_leaves_more_of_the_sample_to_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths_command, "_MOST_TABLE_ROWS", 62)
    monkeypatch.setattr(paths_command, "_SAMPLE", 4)
    many = large(tmp_path, 64)
    one = run("paths", many, "--from", "a.0")
    assert "a sample: 15 of 63 pairs, from 1 node to 16 of 64 nodes" in one.stderr
    assert [len(side) for side in ends(one.stdout)] == [1, 15]
    other = run("paths", many, "--to", "a.0")
    assert [len(side) for side in ends(other.stdout)] == [15, 1]
    assert run("paths", many, "--from", "a.0", "--to", "b").stderr == ""


def test_show_as_json(file: str) -> None:
    content = json.loads(run("show", file, "--format", "json").stdout)
    counts = ["services", "bridges", "links", "events"]
    assert list(content) == ["file", "name", "routing", "counts", *counts, "nodes", "paths", "findings"]
    assert [content[key] for key in counts] == [3, 2, 8, 1]
    assert (content["file"], content["name"], content["routing"]) == (file, "small", "hops")
    # A change of both directions is one event, as in the file.
    assert content["counts"] == {"services": 3, "nodes": 4, "bridges": 2, "links": 8, "events": 1}
    assert content["nodes"][2] == {"rank": 2, "name": "b.0", "service": "b"}
    paths = content["paths"]
    assert (paths["reachable_pairs"], paths["pairs"], paths["sampled_sources"]) == (6, 12, None)
    assert paths["latency_ms"] == {"min": 1.3, "median": 1.3, "max": 2.0}
    assert paths["bandwidth_bps"] == {"min": 10e6, "median": 10e6, "max": 20e6}
    assert paths["loss"] == {"min": 0.0, "median": 0.01, "max": 0.01}
    unreachable = next(each for each in content["findings"] if each["code"] == "unreachable")
    assert unreachable["severity"] == "warning"
    assert unreachable["message"].startswith("6 of 12 ordered pairs")


def test_show_for_people(file: str) -> None:
    result = run("show", file)
    for word in ("small, routing by hops", "6 of 12 ordered pairs", "latency", "1.3ms", "island"):
        assert word in result.stdout
    assert "warning: 6 of 12" in result.stderr


def test_show_as_csv(file: str) -> None:
    rows = dict(csv.reader(io.StringIO(run("show", file, "--format", "csv").stdout)))
    assert (rows["nodes"], rows["links"], rows["pairs"]) == ("4", "8", "12")
    assert math.isclose(float(rows["latency_ms_max"]), 2.0)


def test_a_sample_is_named(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary_module, "_MOST_PAIRS", 8)
    paths = json.loads(run("show", file, "--format", "json").stdout)["paths"]
    assert (paths["sampled_sources"], paths["pairs"]) == (2, 6)
    assert "paths: from a sample of 2 of 4 sources" in run("show", file).stderr


def test_show_of_a_network_without_any_path(tmp_path: Path) -> None:
    path = tmp_path / "alone.yaml"
    path.write_text("services: {a: {}, b: {}}\nlinks: []\n")
    content = json.loads(run("show", str(path), "--format", "json").stdout)
    assert content["paths"]["latency_ms"] == {"min": None, "median": None, "max": None}
    assert content["paths"]["reachable_pairs"] == 0
    assert "–" in run("show", str(path)).stdout


@pytest.mark.parametrize("verb", ["paths", "show"])
def test_a_bad_file_is_refused(verb: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("services: {a: {replicas: 0}}\n")
    result = run(verb, str(path), expect=ExitCode.INVALID_INPUT)
    assert "bad.yaml:1:" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("verb", ["paths", "show"])
def test_help_has_an_example(verb: str) -> None:
    assert f"testbed {verb} topologies/" in run(verb, "--help").stdout
