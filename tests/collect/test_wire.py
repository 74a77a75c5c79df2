"""What the engine has counted on the wire is in the summary, where there is an engine that did."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.collect.health import WireTraffic, read_wire_traffic


def test_what_the_engine_says_at_its_end(tmp_path: Path) -> None:
    assert read_wire_traffic(tmp_path) == WireTraffic(None, None)
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "health.json").write_text('{"t": 1.0, "wire_sent": 12, "wire_received": 9, "nodes": []}')
    assert read_wire_traffic(tmp_path) == WireTraffic(12, 9)


@pytest.mark.parametrize("text", ["", "[]", '{"wire_sent": "many"}', '{"wire_sent": 12'])
def test_what_cannot_be_read_is_not_known(text: str, tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "health.json").write_text(text)
    assert read_wire_traffic(tmp_path) == WireTraffic(None, None)
