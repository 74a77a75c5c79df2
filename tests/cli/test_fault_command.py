"""`testbed fault` for groups and links, on a fabric that runs; what happens to nodes is in the tests of real runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from testbed.cli.fault import command
from testbed.cli.main import main
from testbed.control.commands import Divide, Flap, conversation
from testbed.errors import UsageProblem
from testbed.rundir import RunDirectory
from testbed.runtimes.tracking.process_records import commands_socket, read_record
from tests.cli.live_run import live_run
from tests.runtimes.scratch_run import until

pytestmark = pytest.mark.processes

LINK = ("n.0", "n.1")


@pytest.fixture
def live(tmp_path: Path) -> Iterator[RunDirectory]:
    with live_run(tmp_path) as (directory, _):
        yield directory


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunDirectory]:
    """For what changes nothing."""
    with live_run(tmp_path_factory.mktemp("live")) as (directory, _):
        yield directory


def fault(run: RunDirectory, action: str, *words: str) -> Result:
    result = CliRunner().invoke(command, [action, str(run.path), *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def events(run: RunDirectory, *kinds: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in run.events.read_bytes().splitlines()]
    return [each for each in found if each["what"] in kinds]


def state(run: RunDirectory) -> list[dict[str, Any]]:
    words = ["link", "show", str(run.path), *LINK, "--format", "json"]
    found: list[dict[str, Any]] = json.loads(CliRunner().invoke(main, words).stdout)
    return found


def door(run: RunDirectory) -> Path:
    record = read_record(run)
    assert record is not None
    return commands_socket(Path(record.sockets))


def test_a_partition_begins_and_heals_by_itself(live: RunDirectory) -> None:
    said = fault(live, "partition", "a.0", "/", "a.1", "--for", "200ms").stderr
    assert "partition by-hand-1" in said
    begins, ends = events(live, "partition", "heal")
    assert (begins["what"], begins["detail"]) == ("partition", "by-hand-1: a.0 / a.1")
    assert (ends["what"], ends["detail"]) == ("heal", "by-hand-1")
    assert ends["planned_t"] == pytest.approx(begins["t"] + 0.2)
    assert ends["t"] >= ends["planned_t"]
    assert begins["t"] >= begins["planned_t"]


def test_partitions_are_healed_by_name_or_all(live: RunDirectory) -> None:
    for _ in range(3):
        fault(live, "partition", "a.0/a.1")
    fault(live, "heal", "by-hand-2")
    assert [each["detail"] for each in events(live, "heal")] == ["by-hand-2"]
    with pytest.raises(UsageProblem, match="no partition by-hand-2"):
        fault(live, "heal", "by-hand-2")
    fault(live, "heal")
    assert [each["detail"] for each in events(live, "heal")] == ["by-hand-2", "by-hand-1", "by-hand-3"]
    with pytest.raises(UsageProblem, match="no partition that was made by hand"):
        fault(live, "heal")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("a.0",), "at least two groups"),
        (("a.0", "/"), "at least two groups"),
        (("a.0", "/", "a.0,a.1"), "a.0 is in two groups"),
        (("a.0", "/", "b"), "there is no node `b`"),
    ],
)
def test_what_is_no_partition(untouched: RunDirectory, words: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageProblem, match=said):
        fault(untouched, "partition", *words)
    assert not events(untouched, "partition")


def test_a_link_flaps_and_is_as_before(live: RunDirectory) -> None:
    before = state(live)
    fault(live, "flap", *LINK, "--for", "50ms", "--times", "3", "--every", "200ms")
    found = events(live, "flap")
    assert [each["detail"].rpartition(" ")[2] for each in found] == ["down", "up"] * 3
    began = found[0]["t"]
    planned = [began + each for each in (0.05, 0.2, 0.25, 0.4, 0.45)]
    assert [each["planned_t"] for each in found[1:]] == pytest.approx(planned)
    assert state(live) == before


def test_a_flap_keeps_what_else_was_set_of_the_link(live: RunDirectory) -> None:
    CliRunner().invoke(main, ["link", "set", str(live.path), *LINK, "--latency", "70ms"])
    fault(live, "flap", *LINK, "--for", "50ms")
    assert [(each["latency_ms"], each["up"], each["changed"]) for each in state(live)] == [(70.0, True, True)] * 2


def test_a_flap_leaves_nothing_set_whatever_else_is_changed_meanwhile(live: RunDirectory) -> None:
    with conversation(door(live)) as run:
        run.ask(Flap(*LINK, True, 0.3, 0.6, 1))
        CliRunner().invoke(main, ["link", "set", str(live.path), *LINK, "--latency", "70ms"])
        CliRunner().invoke(main, ["link", "reset", str(live.path)])
        CliRunner().invoke(main, ["link", "set", str(live.path), LINK[0], LINK[1], "--one-way", "--down"])
    until(lambda: len(events(live, "flap")) == 2)
    assert [(each["up"], each["changed"]) for each in state(live)] == [(False, True), (True, False)]


def test_the_run_undoes_it_when_whoever_asked_is_gone(live: RunDirectory) -> None:
    with conversation(door(live)) as run:
        run.ask(Flap(*LINK, True, 0.3, 0.6, 1))
        run.ask(Divide(((0,), (1,)), 0.3))
        assert [each["up"] for each in state(live)] == [False, False]
    until(lambda: bool(events(live, "heal")) and len(events(live, "flap")) == 2)
    assert [each["up"] for each in state(live)] == [True, True]


def test_a_link_that_is_down_cannot_go_down(live: RunDirectory) -> None:
    CliRunner().invoke(main, ["link", "set", str(live.path), *LINK, "--down"])
    with pytest.raises(UsageProblem, match="is down already"):
        fault(live, "flap", *LINK)


def test_every_change_of_a_link_is_in_the_log(live: RunDirectory) -> None:
    for words in (("set", *LINK, "--latency", "70ms", "--loss", "1%"), ("reset", *LINK), ("reset",)):
        assert CliRunner().invoke(main, ["link", words[0], str(live.path), *words[1:]]).exit_code == 0
    found = events(live, "link-set", "link-reset")
    assert [each["detail"] for each in found] == [
        "link n.0 <-> n.1: latency 70ms, loss 1%",
        "link n.0 <-> n.1",
        "all links",
    ]
    assert all(0 <= each["t"] - each["planned_t"] < 5 for each in found)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["crash", "a.0", "--for", "2"], "has no unit"),
        (["resume", "a.0", "--for", "2s"], "No such option"),
        (["flap", "n.0", "n.1", "--for", "0s"], "down for a while"),
        (["flap", "n.0", "n.1", "--times", "2", "--for", "2s", "--every", "1s"], "--every longer"),
        (["flap", "n.0", "n.1", "--every", "3s"], "more than one time"),
        (["flap", "n.0", "n.9"], "there is no node and no bridge `n.9`"),
        (["crsh", "a.0"], "did you mean `crash`?"),
        (["pause", "a.9"], "did you mean `a.1`?"),
        (["pause", "a.0"], "a.0 does not live now"),
        (["resume", "a.*"], "a.0 is not paused, a.1 is not paused"),
    ],
)
def test_wrong_words(untouched: RunDirectory, words: list[str], said: str) -> None:
    result = CliRunner().invoke(main, ["fault", words[0], str(untouched.path), *words[1:]])
    assert result.exit_code == 2
    assert said in result.stderr
    assert not untouched.events.read_bytes()


def test_a_run_that_does_not_go_on(tmp_path: Path) -> None:
    with live_run(tmp_path) as (directory, _):
        pass
    (directory.path / "runtime" / "processes.json").unlink()
    result = CliRunner().invoke(main, ["fault", "heal", str(directory.path)])
    assert result.exit_code == 2
    assert "does not go on" in result.stderr
