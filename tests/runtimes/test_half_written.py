"""What could not be written whole leaves nothing behind."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NoReturn

import pytest

from testbed.control.health import summary_of, write_summary
from testbed.control.outcome import Outcome
from testbed.errors import CouldNotStart
from testbed.journal import CannotWrite
from testbed.rundir import create_run
from testbed.runtimes.tracking.process_records import Places, make_places
from tests.runtimes.sim_runs import plan_of, star


def test_a_record_that_cannot_be_written_leaves_no_folder_of_sockets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> NoReturn:
        raise CannotWrite("the disk is full")

    (sockets := tmp_path / "sockets").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(sockets))
    monkeypatch.setattr(Places, "write_record", full)
    with pytest.raises(CouldNotStart, match="the disk is full"):
        make_places(create_run(tmp_path, "run"))
    assert not list(sockets.iterdir())


def test_a_summary_that_cannot_be_put_in_its_place_leaves_no_half(tmp_path: Path) -> None:
    (tmp_path / "summary.json").mkdir()
    told = summary_of(plan_of(star(2)), Outcome("finished", 1.0, 2, ()), {}, ready_s=None, real_s=1.0, lateness=None)
    with pytest.raises(CannotWrite, match=r"cannot write .*summary\.json"):
        write_summary(tmp_path, told)
    assert [each.name for each in tmp_path.iterdir()] == ["summary.json"]
