"""`testbed draw`: the ending chooses the kind, the file is there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from testbed.cli.main import main

SOURCE = """\
name: two-sites
services:
  site-a: {replicas: 2}
  site-b: {}
bridges: [ra, rb]
links:
  - {from: site-a, to: ra, latency: 1ms, rate: 100Mbps}
  - {from: site-b, to: rb, latency: 1ms, rate: 100Mbps}
  - {from: ra, to: rb, latency: 40ms, loss: 0.1%, rate: 1Gbps}
"""
STARTS = {"svg": b"<?xml", "png": b"\x89PNG", "html": b"<!DOCTYPE html>", "dot": b"digraph", "mmd": b"%% 3 nodes"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "net.yaml"
    file.write_text(SOURCE)
    return file


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["draw", *map(str, arguments)])


@pytest.mark.parametrize("ending", STARTS)
def test_the_ending_chooses_the_kind(source: Path, tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"out.{ending}"
    result = run(source, "-o", target)
    assert result.exit_code == 0, result.output
    assert target.read_bytes().startswith(STARTS[ending])
    assert result.stdout == ""
    assert str(target) in result.stderr
    assert sorted(os.listdir(tmp_path)) == sorted(["net.yaml", target.name])


def test_endings_may_be_in_capitals(source: Path, tmp_path: Path) -> None:
    assert run(source, "-o", tmp_path / "OUT.SVG").exit_code == 0


@pytest.mark.parametrize("name", ["out.gif", "out", ".svg"])
def test_an_unknown_ending_names_the_known_ones(source: Path, tmp_path: Path, name: str) -> None:
    result = run(source, "-o", tmp_path / name)
    assert result.exit_code == 2
    assert all(f".{ending}" in result.stderr for ending in STARTS)
    assert "Traceback" not in result.output
    assert os.listdir(tmp_path) == ["net.yaml"]


def test_a_missing_directory_is_a_usage_problem(source: Path, tmp_path: Path) -> None:
    result = run(source, "-o", tmp_path / "nowhere" / "out.svg")
    assert result.exit_code == 2
    assert "nowhere" in result.stderr
    assert "Traceback" not in result.output


def test_a_directory_is_no_target(source: Path, tmp_path: Path) -> None:
    (tmp_path / "dir.svg").mkdir()
    assert run(source, "-o", tmp_path / "dir.svg").exit_code == 2


def test_a_bad_topology_leaves_the_old_picture(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.svg"
    target.write_text("old")
    source.write_text(SOURCE.replace("to: ra", "to: nowhere"))
    assert run(source, "-o", target).exit_code == 3
    assert target.read_text() == "old"


def test_labels_and_colour_reach_the_picture(source: Path, tmp_path: Path) -> None:
    labelled, bare, lossy = (tmp_path / name for name in ("a.svg", "b.svg", "c.svg"))
    run(source, "-o", labelled)
    run(source, "-o", bare, "--labels", "none")
    source.write_text(SOURCE.replace("to: rb, latency: 1ms,", "to: rb, latency: 1ms, loss: 2%,", 1))
    run(source, "-o", lossy, "--labels", "none", "--colour", "loss")
    assert "40 ms · 1 Gbps · 0.1 % loss</text>" not in bare.read_text()
    assert "40 ms · 1 Gbps · 0.1 % loss" in labelled.read_text()
    assert 'class="loss"' in bare.read_text()
    assert 'class="loss"' not in lossy.read_text()
    assert "link colour: packet loss" in lossy.read_text()


def test_the_output_is_required(source: Path) -> None:
    assert run(source).exit_code == 2


def test_help_has_an_example() -> None:
    assert "testbed draw topologies/wan256.xml -o" in run("--help").output
