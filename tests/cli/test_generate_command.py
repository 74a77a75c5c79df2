"""`testbed generate` and `testbed topologies`: options, outputs, exit codes, and files written whole or not at all."""

from __future__ import annotations

import csv
import json
import os
import sys
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from testbed.cli.main import main
from testbed.cli.output_file import write_atomically
from testbed.errors import UsageProblem
from testbed.topologies.bundled import BUNDLED, find_bundled
from testbed.topologies.graph_import import topohub
from testbed.topologies.load import load, load_bytes
from testbed.topologies.model import Routing, Topology
from testbed.topologies.source import Form


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def generated(*arguments: str) -> Topology:
    result = run("generate", *arguments)
    assert result.exit_code == 0, result.output
    return load_bytes(result.stdout.encode(), Form.YAML, "stdout.yaml").require()


KINDS = {
    "star": (8, 1, 16),
    "ring": (8, 8, 32),
    "tree": (8, 8, 30),
    "mesh": (8, 8, 72),
    "regular": (8, 8, 48),
    "small-world": (8, 8, 48),
    "barabasi-albert": (8, 8, 40),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_writes_a_file_and_says_what_it_holds(kind: str, tmp_path: Path) -> None:
    for ending in ("yaml", "xml"):
        path = tmp_path / f"{kind}8.{ending}"
        result = run("generate", kind, "--nodes", "8", "--kollaps", "-o", str(path))
        nodes, bridges, links = KINDS[kind]
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr.startswith(f"{path}: {nodes} nodes, {bridges} bridge")
        assert result.stderr.endswith(f", {links} directed links\n")
        topology = load(path).require()
        assert (topology.name, len(topology.nodes), topology.services[0].supervisor) == (f"{kind}8", 8, True)


@pytest.mark.parametrize("kind", [*KINDS, "waxman", "regions", "graph", "topohub"])
def test_every_help_has_an_example(kind: str) -> None:
    result = run("generate", kind, "--help")
    assert result.exit_code == 0
    assert f"testbed generate {kind} " in result.stdout


def test_without_a_file_yaml_goes_to_stdout_and_words_to_stderr() -> None:
    result = run("generate", "star", "--nodes", "3")
    assert result.stdout.startswith("name: star3\n")
    assert result.stderr == "standard output: 3 nodes, 1 bridge, 6 directed links\n"
    assert run("generate", "star", "--nodes", "3", "-o", "-").stdout == result.stdout


def test_the_same_arguments_give_the_same_bytes_and_another_seed_others() -> None:
    arguments = ("generate", "waxman", "--nodes", "20", "--stragglers", "0.2", "--seed")
    assert run(*arguments, "5").stdout_bytes == run(*arguments, "5").stdout_bytes
    assert run(*arguments, "5").stdout_bytes != run(*arguments, "6").stdout_bytes


def test_every_option_arrives() -> None:
    topology = generated(
        *(
            "ring",
            "--nodes",
            "6",
            "--sites",
            "3",
            "--name",
            "my ring",
            "--image",
            "me/learner:2",
            "--routing",
            "latency",
        ),
        *("--latency", "5ms", "--rate", "2Gbps", "--jitter", "0.5ms", "--loss", "1%"),
        *("--access-rate", "50Mbps", "--access-up", "10Mbps", "--access-latency", "2ms"),
        *("--access-jitter", "0.25ms", "--access-loss", "0.1%"),
    )
    assert (topology.name, topology.routing) == ("my ring", Routing.LATENCY)
    assert [(service.image, service.replicas) for service in topology.services] == [("me/learner:2", 2)] * 3
    links = {(link.origin, link.dest): link.properties for link in topology.links}
    core, up, down = links["r-n0", "r-n1"], links["n0", "r-n0"], links["r-n0", "n0"]
    assert (core.latency_ms, core.rate_bps, core.jitter_ms, core.loss) == (5.0, 2e9, 0.5, 0.01)
    assert (up.latency_ms, up.rate_bps, up.jitter_ms, up.loss) == (2.0, 10e6, 0.25, 0.001)
    assert down.rate_bps == 50e6
    faster = generated("star", "--nodes", "1", "--access-down", "1Gbps")
    assert [link.properties.rate_bps for link in faster.links] == [100e6, 1e9]


def test_stragglers() -> None:
    topology = generated("star", "--nodes", "20", "--stragglers", "0.1", "--slowdown", "4", "--straggler-kind", "both")
    slow = [node for node in topology.nodes if node.service.speed < 1]
    assert [node.service.speed for node in slow] == [0.25, 0.25]
    rates = {link.origin: link.properties.rate_bps for link in topology.links}
    assert {rates[node.service.name] for node in slow} == {25e6}


def test_the_regions_by_default_are_the_bundled_ones(tmp_path: Path) -> None:
    path = tmp_path / "wan256.xml"
    assert run("generate", "regions", "--nodes", "256", "--kollaps", "--name", "wan256", "-o", str(path)).exit_code == 0
    bundled = find_bundled("wan256")
    assert bundled is not None
    assert path.read_bytes() == bundled.read_bytes()


def test_regions_from_matrices(tmp_path: Path) -> None:
    times, rates = tmp_path / "t.csv", tmp_path / "r.csv"
    times.write_text(",north,south\nnorth,,30\nsouth\n")
    rates.write_text(",north,south\nnorth,,26\nsouth\n")
    common = ("regions", "--matrix", str(times), "--nodes-per-region", "2", "--rates", str(rates))
    for more, latency_ms, loss in [((), 15.0, 0.0), (("--times", "one-way", "--loss", "2%"), 30.0, 0.02)]:
        topology = generated(*common, *more)
        assert [(service.name, service.replicas) for service in topology.services] == [("north", 2), ("south", 2)]
        link = topology.links[-1].properties
        assert (link.latency_ms, link.rate_bps, link.loss) == (latency_ms, 26e6, loss)


def test_a_graph_file_and_what_it_leaves_open(tmp_path: Path) -> None:
    path = tmp_path / "my net.txt"
    path.write_text("paris london 450km\nlondon dublin\n")
    result = run("generate", "graph", str(path), "--latency", "4ms", "--nodes", "6")
    assert result.exit_code == 0
    assert "warning: 1 of 2 links has neither" in result.stderr
    topology = load_bytes(result.stdout.encode(), Form.YAML, "x.yaml").require()
    assert topology.name == "my net"
    assert [(service.name, service.replicas) for service in topology.services] == [
        ("paris", 2),
        ("london", 2),
        ("dublin", 2),
    ]
    assert [
        link.properties.latency_ms
        for link in topology.links
        if link.origin.startswith("r-") and link.dest.startswith("r-")
    ] == [2.25, 2.25, 4.0, 4.0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("ring", "--nodes", "4", "--latency", "5"), "`5` has no unit (write a number and a unit, such as 5ms"),
        (("ring", "--nodes", "4", "--rate", "10mbps"), "did you mean `10Mbps`?"),
        (("ring", "--nodes", "4", "--loss", "2"), "did you mean 2%?"),
        (("ring", "--nodes", "0"), "not in the range"),
        (("ring", "--nodes", "100001"), "not in the range"),
        (("ring",), "Missing option '--nodes'"),
        (("ring", "--nodes", "4", "--stragglers", "1.5"), "not in the range"),
        (("ring", "--nodes", "4", "--stragglers", "nan"), "fraction"),
        (("ring", "--nodes", "4", "--name", ""), "printable characters"),
        (("ring", "--nodes", "4", "--image", "a b"), "without blanks"),
        (("ring", "--nodes", "4", "-o", "x.json"), "neither XML nor YAML"),
        (("mesh", "--nodes", "5000"), "directed links"),
        (("regular", "--nodes", "5", "--degree", "3"), "change one of the two by 1"),
        (("small-world", "--nodes", "8", "--degree", "3"), "the degree is even"),
        (("barabasi-albert", "--nodes", "4", "--links", "4"), "give between 1 and 3"),
        (("barabasi-albert", "--nodes", "4", "--sites", "1"), "a scale-free network of 1 site has no links"),
        (("barabasi-albert", "--nodes", "4", "--sites", "2"), "2 links for each new one of 2 sites\n  give 1: "),
        (("regular", "--nodes", "4", "--degree", "1"), "4 sites with 1 neighbour each cannot be connected"),
        (("regular", "--nodes", "4", "--sites", "1"), "4 neighbours each among 1 site\n  one site has none"),
        (("waxman", "--nodes", "3000"), "at most 2000"),
        (("waxman", "--nodes", "4", "--latency", "3ms"), "--latency has no effect on networks of this kind\n  lat"),
        (("star", "--nodes", "4", "--slowdown", "3"), "--slowdown has no effect without stragglers"),
        (("star", "--nodes", "4", "--straggler-kind", "compute"), "--straggler-kind has no effect"),
        (
            ("star", "--nodes", "4", "--access-rate", "1Mbps", "--access-up", "1Mbps", "--access-down", "2Mbps"),
            "--access-rate has no effect",
        ),
        (("star", "--nodes", "4", "--access-rate", "unlimited", "--stragglers", "0.5"), "cannot be slowed down"),
        (("regions",), "--nodes-per-region"),
        (("regions", "--nodes", "4", "--nodes-per-region", "1"), "--nodes-per-region"),
        (("regions", "--nodes", "4", "--times", "one-way"), "round trips"),
        (("regions", "--nodes", "4", "--loss", "1%", "--losses", "x.csv"), "do not go together"),
        (("regions", "--nodes", "4", "--matrix", "none.csv"), "no such file"),
        (("graph", "none.gml"), "no such file"),
        (("pentagon",), "there is no command 'pentagon'"),
    ],
)
def test_what_cannot_be_is_a_usage_error(arguments: tuple[str, ...], words: str) -> None:
    result = run("generate", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_what_is_ignored_is_not_offered() -> None:
    assert "\n  --latency " not in run("generate", "waxman", "--help").stdout
    assert "\n  --latency " in run("generate", "ring", "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("ring", "--seed", "3"), True),
        (("ring", "--seed", "3", "--stragglers", "0.5"), False),
        (("ring",), False),
        (("waxman", "--seed", "3"), False),
        (("small-world", "--nodes", "8", "--seed", "3"), False),
    ],
)
def test_a_seed_that_decides_nothing_is_told(arguments: tuple[str, ...], told: bool) -> None:
    result = run("generate", arguments[0], "--nodes", "8", *arguments[1:])
    assert result.exit_code == 0
    assert ("--seed changes nothing" in result.stderr) == told


def test_a_jitter_beyond_a_third_of_the_latency_is_told_as_validate_tells_it(tmp_path: Path) -> None:
    path = str(tmp_path / "r.yaml")
    command = ("generate", "ring", "--nodes", "3", "-o", path, "--latency", "9ms", "--jitter")
    assert "(jitter)" not in run(*command, "3ms").stderr
    wild = run(*command, "3.1ms")
    assert wild.exit_code == 0
    assert wild.stderr.count("(jitter)") == 3
    assert "link from `r-n0` to `r-n1`: a jitter of 3.1ms is more than a third of the latency, 9ms" in wild.stderr
    told = {line.split(": ", 1)[1] for line in wild.stderr.splitlines() if "(jitter)" in line}
    assert told == {line.split(": ", 1)[1] for line in run("validate", path).stderr.splitlines() if "(jitter)" in line}


def test_other_findings_of_a_generated_network_are_left_to_validate() -> None:
    result = run("generate", "ring", "--nodes", "4", "--access-jitter", "1ms")
    assert "(jitter)" in result.stderr
    assert "(ties)" not in result.stderr


def test_new_names_of_imported_sites_are_told(tmp_path: Path) -> None:
    path = tmp_path / "names.txt"
    path.write_text("a A 5ms\nA 日本 5ms\n")
    result = run("generate", "graph", str(path))
    assert "2 of 3 sites have other names here: `A` is `a-2`, `日本` is `site` (import-renamed)" in result.stderr
    path.write_text("a b 5ms\n")
    assert "import-renamed" not in run("generate", "graph", str(path)).stderr


def test_a_bad_graph_file_is_invalid_input_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "b.graphml"
    path.write_text('<?xml version="1.0"?>\n<!DOCTYPE x>\n<graphml/>')
    result = run("generate", "graph", str(path))
    assert (result.exit_code, result.stdout) == (3, "")
    assert f"{path}:2:" in result.stderr


def test_what_xml_cannot_say_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    result = run(
        "generate", "star", "--nodes", "4", "--stragglers", "0.5", "--straggler-kind", "compute", "-o", str(path)
    )
    assert result.exit_code == 2
    assert "name the file .yaml" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_topohub_the_hint_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topohub, "find_spec", lambda _name: None)
    result = run("generate", "topohub", "sndlib/germany50")
    assert result.exit_code == 2
    assert "`scripts/venv topohub` in the checkout, or `pip install topohub` beside testbed" in result.stderr


# The list


def test_the_list_has_a_line_for_each_file() -> None:
    result = run("topologies")
    assert result.exit_code == 0
    for bundled in BUNDLED:
        (line,) = [line for line in result.stdout.splitlines() if line.split()[:1] == [bundled.name]]
        assert bundled.description in line
        assert line.split()[1] == bundled.form


def test_the_list_as_data() -> None:
    rows = json.loads(run("topologies", "--format", "json").stdout)
    assert [row["name"] for row in rows] == [bundled.name for bundled in BUNDLED]
    (wan256,) = [row for row in rows if row["name"] == "wan256"]
    sizes = {"name": "wan256", "form": "xml", "nodes": 256, "bridges": 10, "links": 602}
    assert wan256 == {**sizes, "description": "256 nodes in the same ten cloud regions"}
    table = list(csv.DictReader(StringIO(run("topologies", "--format", "csv").stdout)))
    assert [{key: str(value) for key, value in row.items()} for row in rows] == table


# Files


def test_a_file_is_replaced_as_a_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    write_atomically(path, "é")
    assert path.read_bytes() == "é".encode()
    path.chmod(0o640)
    write_atomically(path, b"\x00new")
    assert path.read_bytes() == b"\x00new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [each.name for each in tmp_path.iterdir()] == ["a.yaml"]


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.yaml"
    write_atomically(path, "old")

    def full(_source: str, _target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UsageProblem, match="no space left"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["a.yaml"]


def test_directories_and_missing_places_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="it is a directory"):
        write_atomically(tmp_path, "x")
    with pytest.raises(UsageProblem, match="no such file or directory") as caught:
        write_atomically(tmp_path / "none" / "x.yaml", "x")
    assert caught.value.hint == "make the directory first"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "a.yaml", tmp_path / "b.yaml"
    target.write_text("old")
    link.symlink_to(target)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/null is meant")
def test_a_device_is_written_to_and_not_replaced() -> None:
    write_atomically("/dev/null", "x")
    assert Path("/dev/null").is_char_device()
