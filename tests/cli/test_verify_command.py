"""`testbed verify`: what it prints and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from testbed.cli.verify import COLUMNS, command
from testbed.errors import ExitCode, PreflightRefused, UsageProblem
from testbed.topologies.model import Topology
from testbed.verify import prepare
from testbed.verify.needs import Effort
from testbed.verify.plan import Plan
from testbed.verify.tools import Tools
from tests.engines.world import needs_network

SMALL = """
services: {a: {}, b: {}}
links:
  - {from: a, to: b, latency: 5ms, rate: 20Mbps, queue: 20ms}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return str(path)


def quick(topology: Topology, count: int, seed: int, effort: Effort, _tools: Tools) -> Plan:
    """Without the shared bottleneck, which takes 25 seconds, and without programs that may be missing."""
    plan = plan_of(topology, count, seed, effort)
    return Plan(plan.pairs, None, effort, plan.change)


plan_of = prepare.plan_of


@needs_network
def test_a_right_network_passes(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "plan_of", quick)
    result = CliRunner().invoke(command, [file, "--format", "json"])
    assert result.exit_code == ExitCode.OK, result.output
    told = json.loads(result.stdout)
    assert told["as_asked"] is True
    assert told["pairs"] == [{"pair": "a.0 → b.0", "why": "shortest"}]
    found = {row["what"]: row for row in told["measurements"]}
    assert set(found) == {"round trip", "loss", "drops counted", "change", "change back", "queue", "rate (TCP)"}
    assert all(list(row) == list(COLUMNS) and row["verdict"] == "ok" for row in told["measurements"])
    assert found["round trip"]["asked"] == pytest.approx(10.042, abs=0.01)
    assert 17.0 <= found["queue"]["measured"] <= 23.0
    assert "cubic" in found["rate (TCP)"]["detail"]
    assert "0 out of bounds" in result.stderr


@needs_network
def test_a_wrong_network_ends_with_seven(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config_for = prepare.config_for

    def wrong(topology: Topology, seed: int, folder: Path) -> object:
        from testbed.topologies.load import load_bytes
        from testbed.topologies.source import Form

        slower = load_bytes(SMALL.replace("5ms", "7ms").encode(), Form.YAML, "slower").require()
        assert len(slower.nodes) == len(topology.nodes)
        return config_for(slower, seed, folder)

    monkeypatch.setattr(prepare, "plan_of", quick)
    monkeypatch.setattr(prepare, "config_for", wrong)
    result = CliRunner().invoke(command, [file, "--format", "csv"])
    assert result.exit_code == 7
    wrong_rows = [line for line in result.stdout.splitlines() if ",wrong," in line]
    assert [line.split(",")[1] for line in wrong_rows] == ["round trip"]
    assert "1 out of bounds" in result.stderr


def test_a_network_without_paths(tmp_path: Path) -> None:
    path = tmp_path / "alone.yaml"
    path.write_text("services: {a: {replicas: 2}}\n")
    result = CliRunner().invoke(command, [str(path)])
    assert isinstance(result.exception, UsageProblem)


def test_where_the_machine_denies_it_nothing_is_started(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    denied = PreflightRefused("no network here")
    monkeypatch.setattr("testbed.engines.abilities.what_is_denied", lambda _tcp: denied)
    result = CliRunner().invoke(command, [file])
    assert result.exception is denied
    assert not result.stdout
