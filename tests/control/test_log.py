"""Control's log: written at once in real time; in virtual time independent of the order of reports."""

from __future__ import annotations

import json
from pathlib import Path

from testbed.control.log import ControlLog
from testbed.records import Event


def written(path: Path) -> list[str]:
    return [json.loads(text)["what"] for text in path.read_text().splitlines()]


def test_in_real_time_each_record_is_there_at_once(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = ControlLog(path)
    for number, what in enumerate(("b", "a"), 1):
        log.write(Event(1.0, what, ""))
        assert len(written(path)) == number, "it need not be closed"
    assert written(path) == ["b", "a"]


def test_in_virtual_time_an_instant_is_in_the_order_of_its_texts(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = ControlLog(path, is_virtual=True)
    for t, what in ((1.0, "b"), (1.0, "a"), (2.0, "d"), (2.0, "c")):
        log.write(Event(t, what, ""))
    assert written(path) == ["a", "b"]
    log.close()
    assert written(path) == ["a", "b", "c", "d"]
