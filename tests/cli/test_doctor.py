"""`testbed doctor`: what it finds on this machine, and on machines that deny something."""

from __future__ import annotations

import json
import os
import resource

import pytest
from click.testing import CliRunner

from testbed.cli.main import main
from testbed.engines.machine_facts import MachineFacts
from testbed.runtimes.registry import RUNTIMES
from testbed.runtimes.runtime import Check
from tests.cli.denied import command_where

NO_DEVICE = "--device /dev/net/tun" if MachineFacts().is_container else "modprobe tun"
Found = dict[str, dict[str, object]]


def checks() -> list[Check]:
    return [check for runtime in reversed(RUNTIMES) for check in runtime.checks()]


def by_name(text: str) -> Found:
    return {str(each["check"]): each for each in json.loads(text)}


@pytest.mark.parametrize(
    ("what", "denied", "hint"),
    [
        ("no TUN device", {"emulated network", "/dev/net/tun"}, NO_DEVICE),
        (
            "no namespaces left",
            {"emulated network", "user namespaces", "number of network namespaces"},
            "sysctl -w user.max_net_namespaces=65536",
        ),
        ("no user namespaces", {"emulated network", "user namespaces"}, "denies user namespaces"),
    ],
)
@pytest.mark.processes
def test_what_is_denied_is_told_with_a_way_out(what: str, denied: set[str], hint: str) -> None:
    result = command_where(what, "doctor", "--format", "json")
    assert result.returncode == 4, result.stderr
    found = by_name(result.stdout)
    already = {each.name for each in checks() if not each.ok}  # by this machine itself
    apart = {"learners kept apart"}  # it takes all that these machines deny
    assert {name for name, each in found.items() if not each["ok"]} == denied | apart | already
    for name in denied:
        assert found[name]["what to do"]
    assert hint in str(found["emulated network"]["what to do"]) + str(found[sorted(denied)[-1]]["what to do"])


def test_the_exit_code_says_whether_real_runs_can_be_had() -> None:
    result = CliRunner().invoke(main, ["doctor", "--format", "json"])
    needed = [each for each in checks() if each.required]
    assert [each.name for each in needed] == ["emulated network", "folder of sockets"]
    assert result.exit_code == (0 if all(each.ok for each in needed) else 4)
    assert [each["check"] for each in json.loads(result.stdout)] == [each.name for each in checks()]


def test_what_is_short_but_not_denied_is_told_and_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (256, 256))
    found = {each.name: each for each in checks()}
    assert not found["open files"].ok
    assert found["open files"].hint == "raise it: ulimit -Hn 65536"
    assert not found["open files"].required


def test_a_folder_that_sockets_cannot_be_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/tmp/" + 60 * "x")  # noqa: S108 - it is not there
    result = CliRunner().invoke(main, ["doctor", "--format", "json"])
    assert result.exit_code == 4
    found = by_name(result.output)["folder of sockets"]
    assert (found["ok"], found["what to do"]) == (False, "set TMPDIR to a folder that can be written")


def test_the_table_says_no_in_capitals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_setscheduler", _denied)
    lines = CliRunner().invoke(main, ["doctor"]).stdout.splitlines()
    (line,) = (line for line in lines if line.strip().startswith("idle priority"))
    assert line.split()[2] == "NO"
    assert "denied (Operation not permitted)" in line


def _denied(*_: object) -> None:
    raise PermissionError(1, "Operation not permitted")
