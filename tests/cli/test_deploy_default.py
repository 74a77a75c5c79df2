"""The runtime that `deploy` takes by default, what it prints at its end for programs, and exit code 5."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from testbed.cli.main import main
from testbed.control.outcome import NodeFailure, Outcome
from testbed.control.progress import ProgressTally
from testbed.engines.denied import NetworkDenied
from testbed.engines.machine_facts import MachineFacts
from testbed.engines.steps import Step
from testbed.errors import ExitCode, UsageProblem
from testbed.records import Failure
from testbed.runtimes.docker.runtime import IMAGE, DockerRuntime
from testbed.runtimes.registry import choose
from tests.cli.denied import command_where
from tests.runtimes.local_runs import needs_network

SMALL = """
services:
  a: {replicas: 4}
bridges: [r]
links: [{from: a, to: r, latency: 5ms, rate: 20Mbps}]
"""
NO_ENGINE = ("DOCKER_HOST", "unix:///nowhere/docker.sock")
QUICK = ("small.yaml", "--data", "digits", "--rounds", "2", "--set", "compute.ms_per_step=20")


@pytest.fixture(autouse=True)
def _nothing_pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TESTBED_RUNTIME")
    monkeypatch.setenv(*NO_ENGINE)
    Path("small.yaml").write_text(SMALL)


def deploy(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["deploy", *QUICK, *arguments])


def allowed(monkeypatch: pytest.MonkeyPatch, denied: NetworkDenied | None) -> None:
    monkeypatch.setattr("testbed.engines.network_check.what_is_denied", lambda _tcp: denied)


def no_device(folder: Path) -> NetworkDenied:
    """As of a machine without the kernel's module."""
    return NetworkDenied(Step.TUN_DEVICE, os.strerror(errno.ENOENT), errno.ENOENT, MachineFacts(folder, 1000))


def settled(asked: str | None, engine: str | None, *, image: bool = False) -> tuple[str, list[str]]:
    """The runtime, and what is said about it."""
    told: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DockerRuntime, "why_not_default", lambda _: None if image else "no Docker Engine answers")
        chosen = choose(asked, {"engine": engine}).settled(told.append, told.append)
    return chosen.name, told


def test_real_processes_are_the_default_where_the_machine_allows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed(monkeypatch, None)
    assert settled(None, None)[0] == "local"
    assert settled(None, None)[1] == ["runtime: local (no Docker Engine answers; --runtime sim is virtual time)"]
    runtime, (words,) = settled(None, "fabric")
    assert runtime == "local"
    assert words.startswith("runtime: local (--engine fabric; ")


def test_an_image_stands_for_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed(monkeypatch, None)
    missing = deploy("--image", "nosuch:1")
    assert missing.exit_code == 4
    assert "no Docker Engine answers" in missing.stderr, "nothing else is taken instead"
    for runtime in ("sim", "local"):
        result = deploy("--image", "mine:1", "--runtime", runtime)
        assert result.exit_code == 2
        assert "--image is for --runtime docker" in result.stderr


def test_containers_are_the_default_where_an_engine_has_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed(monkeypatch, no_device(tmp_path))  # which is not asked then
    runtime, (words,) = settled(None, None, image=True)
    assert runtime == "docker"
    assert words.startswith(
        "runtime: docker (a Docker Engine answers and has the image; --runtime local is real processes"
    )
    assert settled(None, "none", image=True)[0] == "local", "containers have no choice of engines"
    assert settled("local", None, image=True) == ("local", [])
    monkeypatch.setenv("TESTBED_RUNTIME", "sim")
    assert settled(None, None, image=True)[0] == "sim"


def test_where_the_machine_denies_real_processes_virtual_time_is_taken_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed(monkeypatch, no_device(tmp_path))
    words = (
        "runtime: sim, virtual time, since real learners cannot run here: opening /dev/net/tun was denied: No such "
        "file or directory; load the kernel's module: sudo modprobe tun; --engine none is plain loopback, unshaped"
    )
    assert settled(None, None) == ("sim", [words])
    result = deploy("--run-id", "one", "--format", "json")
    assert result.exit_code == 0, result.stderr
    assert result.stderr.count("runtime: sim, virtual time, since") == 1
    choice = {"how": "fallback", "why": "opening /dev/net/tun was denied: No such file or directory"}
    for said in (
        result.stdout,
        Path("results/one/summary.json").read_text(),
        Path("results/one/plan.json").read_text(),
    ):
        assert json.loads(said)["runtime_choice"] == choice
    collected = CliRunner().invoke(main, ["collect", "results", "--format", "json"])
    assert collected.exit_code == 0, collected.stderr
    (run,) = json.loads(collected.stdout)["runs"]
    assert (run["runtime"], run["runtime_choice"]) == ("sim", choice)
    words = f"in virtual time, since real learners could not run where it was deployed: {choice['why']}"
    assert run["problems"] == [words]
    assert f"one: {words}" in CliRunner().invoke(main, ["collect", "results"]).stderr


def test_another_runtime_is_told_even_to_who_wants_to_hear_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a time scale of 1 is what virtual time has."""
    allowed(monkeypatch, no_device(tmp_path))
    result = deploy("--quiet", "--time-scale", "1")
    assert result.exit_code == 0, result.stderr
    (words,) = result.stderr.splitlines()
    assert words.startswith("runtime: sim, virtual time, since ")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--engine", "fabric"), "--engine fabric"),
        (("--time-scale", "2"), "--time-scale 2"),
        (("--detach",), "--detach"),
        (("--detach", "--time-scale", "2"), "--time-scale 2, --detach"),
        (("--set", "compute.mode=measured"), "compute.mode=measured"),
    ],
)
def test_what_virtual_time_would_ignore_is_no_run_in_virtual_time(
    arguments: tuple[str, ...], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed(monkeypatch, no_device(tmp_path))
    refused = deploy(*arguments)
    assert refused.exit_code == 4, refused.stderr
    assert "opening /dev/net/tun was denied: No such file or directory" in refused.stderr
    for words in ("sudo modprobe tun", f"without {named} the run", "--runtime sim", "--engine none"):
        assert words in refused.stderr
    assert not Path("results").exists()


def test_who_asks_for_real_processes_gets_them_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed(monkeypatch, no_device(tmp_path))
    assert settled("local", None) == ("local", [])
    assert settled(None, "none") == ("local", ["runtime: local (--engine none; --runtime sim is virtual time)"])
    assert settled("sim", None) == ("sim", [])
    monkeypatch.setenv("TESTBED_RUNTIME", "local")
    assert settled(None, None) == ("local", ["runtime: local (TESTBED_RUNTIME says so)"])
    refused = deploy("--set", "compute.ms_per_step=20")
    assert refused.exit_code == 4, refused.stderr
    assert "sudo modprobe tun" in refused.stderr
    assert not Path("results").exists()
    wrong = deploy("--lr", "-1", "--format", "json")
    assert (wrong.exit_code, wrong.stdout) == (3, ""), "what is wrong with the options comes first"


def test_the_environment_goes_before_the_default_and_an_option_before_both(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed(monkeypatch, None)
    monkeypatch.setenv("TESTBED_RUNTIME", "sim")
    assert settled(None, None) == ("sim", ["runtime: sim (TESTBED_RUNTIME says so)"])
    assert settled("local", None) == ("local", [])
    monkeypatch.setenv("TESTBED_RUNTIME", "locl")
    with pytest.raises(UsageProblem, match="TESTBED_RUNTIME: there is no runtime `locl`"):
        choose(None, {})


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--lr", "-1"), 3),
        (("--run-id", ".x"), 2),
        (("--degree", "9"), 3),
        (("--set", "compute.mode=measured", "--runtime", "sim"), 2),
        (("--detach", "--runtime", "sim"), 2),
    ],
)
def test_what_is_chosen_is_said_only_of_a_run_that_can_be(
    arguments: tuple[str, ...], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed(monkeypatch, None)
    wrong = deploy(*arguments)
    assert wrong.exit_code == code, wrong.stderr
    for words in ("runtime:", "preparing"):
        assert words not in wrong.stderr


@pytest.mark.parametrize("what", ["no TUN device", "no user namespaces"])
@pytest.mark.processes
def test_a_machine_that_denies_networks_is_told_of_before_anything_is_made(what: str) -> None:
    result = command_where(what, "deploy", *QUICK, "--engine", "fabric", TESTBED_RUNTIME="")
    assert result.returncode == 4, result.stderr
    assert "--runtime sim" in result.stderr
    assert not Path("results").exists()


@pytest.mark.processes
def test_a_machine_that_denies_networks_runs_in_virtual_time() -> None:
    result = command_where("no TUN device", "deploy", *QUICK, TESTBED_RUNTIME="")
    assert result.returncode == 0, result.stderr
    assert "runtime: sim, virtual time, since real learners cannot run here: opening /dev/net/tun" in result.stderr


@needs_network
def test_a_run_with_nothing_said_is_of_real_processes_and_its_summary_is_data() -> None:
    result = deploy("--run-id", "one", "--format", "json")
    assert result.exit_code in (0, 7), result.stderr  # a busy machine may not keep up
    assert json.loads(Path("results/one/plan.json").read_text())["runtime"] == "local"
    assert json.loads(result.stdout) == json.loads(Path("results/one/summary.json").read_text())
    assert "finished: 4 nodes, 2 rounds" in result.stderr


@pytest.mark.parametrize("form", ["json", "csv", "table"])
def test_a_run_in_virtual_time_has_a_summary_too(form: str) -> None:
    result = deploy("--run-id", "one", "--runtime", "sim", "--workers", "0", "--format", form)
    assert result.exit_code == 0, result.stderr
    if form == "json":
        found = json.loads(result.stdout)
        assert (found["run_id"], found["health"], found["finished"], found["failed"]) == ("one", "valid", 4, [])
    elif form == "csv":
        lines = result.stdout.splitlines()
        assert lines[0] == "what,value"
        assert "computing_works,0" in lines
    else:
        assert result.stdout == ""
    assert "finished: 4 nodes, 2 rounds" in result.stderr


BEGAN = ProgressTally((0,), 3, None).look(1.0)
FAILED = (NodeFailure("a", Failure("no")),)


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (Outcome("finished", 1.0, 1, (), BEGAN), 0),
        (Outcome("finished", 1.0, 1, (), BEGAN, overloaded=("late",)), 7),
        (Outcome("failed", 1.0, 1, FAILED, BEGAN, overloaded=("late",)), 6),
        (Outcome("failed", 1.0, 1, (), BEGAN, broken=("the fabric is gone",)), 6),
        (Outcome("failed", 0.0, 1, (), None, broken=("the fabric is gone",)), 5),
        (Outcome("failed", 0.0, 1, FAILED, None, broken=("the fabric is gone",)), 5),
        (Outcome("failed", 0.0, 1, FAILED, None), 6),
        (Outcome("interrupted", 0.0, 1, (), None, broken=("the fabric is gone",)), 130),
    ],
)
def test_the_exit_code_says_what_became_of_a_run(outcome: Outcome, code: int) -> None:
    assert outcome.exit_code == code


@pytest.mark.parametrize("name", ["BAD NAME", "", "mine@sha256:12", "a//b", "-rm"])
def test_what_can_be_no_images_name_is_a_mistake_of_the_command(name: str) -> None:
    """Whether or not there is an Engine that could be asked."""
    result = deploy("--image", name)
    assert result.exit_code == ExitCode.USAGE
    assert f"`{name}` cannot be an image's name" in result.output


@pytest.mark.parametrize("name", ["mine", "mine:1", "sha256:" + 64 * "a", "3f2a1b", "here/mine@sha256:" + 64 * "0"])
def test_images_are_meant_by_names_digests_and_ids(name: str) -> None:
    assert IMAGE.parse is not None
    assert IMAGE.parse(name) == name


def test_a_default_that_gives_way_keeps_every_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was asked for is never replaced: neither by the next default, nor by virtual time."""
    allowed(monkeypatch, None)
    Path("small.yaml").write_text(SMALL.replace("{replicas: 4}", "{replicas: 4, image: mine}"))
    monkeypatch.setattr(DockerRuntime, "why_not_default", lambda _: None)
    refused = deploy("--sockets", "volume", "--dry-run")
    assert (refused.exit_code, "--sockets volume" in refused.stderr) == (2, True), refused.stderr
    assert "runtime: sim" not in refused.stderr


def test_why_no_runtime_takes_an_option_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed(monkeypatch, None)
    monkeypatch.setattr(DockerRuntime, "why_not_default", lambda _: "no Docker Engine answers")
    refused = deploy("--sockets", "volume")
    assert refused.exit_code == 2
    assert "takes --sockets volume; `docker` does, but no Docker Engine answers" in refused.stderr


def test_no_worker_is_asked_for_of_virtual_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed(monkeypatch, None)
    assert settled("sim", None)[0] == "sim"
    refused = deploy("--runtime", "local", "--workers", "0")
    assert (refused.exit_code, "takes no --workers" in refused.stderr) == (2, True)
