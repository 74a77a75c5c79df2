"""`logs -f` of a run that only its Docker Engine knows of: an Engine that does not answer ends nothing, and is asked
now and then."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from click.testing import CliRunner

from testbed.cli import logs as module
from testbed.cli.main import main
from testbed.errors import PreflightRefused
from testbed.plan.files import write_plan
from testbed.rundir import RunDirectory, create_run
from testbed.runtimes.docker import live
from testbed.runtimes.tracking.process_records import RunRecord
from tests.manifests.compose.composing import plan_of, topology_of

PLAN = plan_of(topology_of("lan4"), "data.name=digits")


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """On volumes, with processes that are not visible here."""
    made = create_run(tmp_path, "r")
    write_plan(made, PLAN)
    record = made.path / "runtime" / "processes.json"
    record.parent.mkdir(exist_ok=True)
    record.write_bytes(msgspec.json.encode(RunRecord(str(tmp_path), [], on_volumes=True, unseen=True)))
    return made


def test_an_engine_that_is_away_for_a_while(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    log = run.node(PLAN.nodes[0].name).log
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("first\n")
    now_s = 1000.0
    asked_s: list[float] = []
    printed: list[str] = []

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    def kept(line: str) -> str:
        printed.append(line)
        return line

    def is_led(_run: RunDirectory) -> bool:
        asked_s.append(now_s)
        assert printed, "what there is comes before any question"
        if len(asked_s) in (2, 3):
            raise PreflightRefused("no Docker Engine answers")
        if len(asked_s) == 5:
            with log.open("a") as file:
                file.write("last, without an end")
        return len(asked_s) < 5

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now_s, sleep=sleep))
    monkeypatch.setattr(module, "printable", kept)
    monkeypatch.setattr(live, "is_led", is_led)
    told = CliRunner().invoke(main, ["logs", "-f", str(run.path)])
    assert told.exit_code == 0, told.output
    assert [line.split()[-1] for line in told.stdout.splitlines()] == ["first", "end"]
    assert told.stderr.count("no Docker Engine answers") == 1
    assert [round(each - asked_s[0]) for each in asked_s] == [0, 3, 6, 9, 12]
