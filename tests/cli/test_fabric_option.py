"""`--fabric`: which data plane carries a run's packets, and where that is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from testbed.engines.fabric.config import DEFAULT_PLANE
from testbed.engines.fabric.native_plane import library
from testbed.errors import PreflightRefused
from testbed.plan.files import write_plan
from testbed.plan.instead import data_plane_words
from testbed.plan.model import DataPlaneChoice
from testbed.rundir import create_run
from tests.cli.in_process import command
from tests.runtimes.local_runs import locally, needs_network
from tests.runtimes.sim_runs import plan_of, star

SMALL = """
services:
  a: {replicas: 2}
links: [{from: a.0, to: a.1, latency: 5ms, rate: 20Mbps}]
"""
DENIED = PreflightRefused("the core is not there", "compile it")
REMARK = "warning: the fabric runs in Python, about seven times slower: the core is not there; compile it"


@pytest.fixture(autouse=True)
def _a_machine_that_allows_networks(in_a_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    monkeypatch.setattr("testbed.engines.network_check.what_is_denied", lambda _tcp: None)
    monkeypatch.delenv(DEFAULT_PLANE, raising=False)
    Path("small.yaml").write_text(SMALL)


@pytest.fixture
def has_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "why_not", lambda: None)


@pytest.fixture
def has_no_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "why_not", lambda: DENIED)


def planned(*words: str) -> Result:
    settings = ("--data", "digits", "--rounds", "1", "--set", "compute.ms_per_step=50", "--time-scale", "1")
    options = ("--runtime", "local", "--dry-run", "--format", "json")
    return command("deploy", "small.yaml", *settings, *options, *words)


def data_plane(result: Result) -> dict[str, str]:
    assert result.exit_code == 0, result.output
    found: dict[str, str] = json.loads(result.stdout)["data_plane"]
    return found


@pytest.mark.usefixtures("has_core")
def test_the_plan_says_what_was_asked_for_and_what_was_chosen() -> None:
    chosen = planned()
    assert data_plane(chosen) == {"asked": "auto", "used": "native"}
    assert "Python" not in chosen.stderr
    assert data_plane(planned("--fabric", "native")) == {"asked": "native", "used": "native"}
    assert data_plane(planned("--fabric", "python")) == {"asked": "python", "used": "python"}
    assert "\ndata plane: python\n" in planned("--fabric", "python").stderr
    assert "network by fabric (python)" in planned("--fabric", "python", "--format", "table").stdout


@pytest.mark.usefixtures("has_core")
def test_the_environment_says_what_is_taken_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DEFAULT_PLANE, "python")
    assert data_plane(planned()) == {"asked": "python", "used": "python"}
    assert data_plane(planned("--fabric", "auto")) == {"asked": "auto", "used": "native"}
    monkeypatch.setenv(DEFAULT_PLANE, "rust")
    assert planned().exit_code == 2


@pytest.mark.usefixtures("has_no_core")
def test_without_the_core_a_run_is_in_python_and_says_so_once_even_in_quiet() -> None:
    result = planned("--quiet")
    assert data_plane(result) == {"asked": "auto", "used": "python"}
    assert result.stderr.splitlines() == [REMARK]
    assert REMARK not in planned("--fabric", "python").stderr, "as was asked for"


@pytest.mark.usefixtures("has_no_core")
def test_without_the_core_who_asks_for_it_is_refused() -> None:
    result = planned("--fabric", "native")
    assert result.exit_code == 4
    assert result.stderr.splitlines()[-2:] == ["Error: the core is not there", "  compile it"]


def test_in_containers_the_fabric_chooses() -> None:
    told = {asked: data_plane_words(DataPlaneChoice(asked=asked, used=None)) for asked in ("auto", "native", "python")}
    assert told.pop("auto") == "auto: native if the image has the compiled core, else python"
    assert told == {"native": "native", "python": "python"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--runtime", "local", "--engine", "none"), "--engine none has none"),
        (("--runtime", "sim"), "takes no --fabric"),
    ],
)
@pytest.mark.usefixtures("has_core")
def test_what_has_no_fabric_takes_no_such_option(words: tuple[str, ...], told: str) -> None:
    result = command("deploy", "small.yaml", "--data", "digits", "--dry-run", "--fabric", "native", *words)
    assert result.exit_code == 2
    assert told in result.stderr


@pytest.mark.usefixtures("has_no_core")
def test_a_plan_that_asks_for_the_core_is_refused_where_it_is_not_there() -> None:
    """One that got it by default runs in Python: the schedule is the same."""
    plan = locally(plan_of(star(2), stop={"rounds": 1}))
    for asked in ("native", "auto"):
        before = create_run(Path("before"), asked)
        write_plan(before, plan.model_copy(update={"data_plane": DataPlaneChoice(asked=asked, used="native")}))
    again = ("deploy", "--dry-run", "--format", "json", "--plan")
    refused = command(*again, "before/native/plan.json")
    assert refused.exit_code == 4
    assert "Error: the core is not there" in refused.stderr
    assert data_plane(command(*again, "before/native/plan.json", "--fabric", "python"))["used"] == "python"
    by_default = command(*again, "before/auto/plan.json")
    assert data_plane(by_default) == {"asked": "auto", "used": "python"}
    assert REMARK in by_default.stderr
    virtual = command(*again, "before/native/plan.json", "--runtime", "sim")
    assert json.loads(virtual.stdout)["data_plane"] is None


@needs_network
def test_what_ran_is_in_the_files_of_a_run_and_in_what_tells_of_it() -> None:
    words = ("--data", "digits", "--rounds", "1", "--set", "compute.ms_per_step=200", "--time-scale", "1")
    options = ("--runtime", "local", "--fabric", "python", "--run-id", "one")
    result = command("deploy", "small.yaml", *words, *options)
    assert result.exit_code in (0, 7), result.stderr
    for file in ("summary.json", "engine/health.json"):
        assert json.loads(Path("results/one", file).read_text())["data_plane"] == "python"
    assert json.loads(Path("results/one/plan.json").read_text())["data_plane"]["used"] == "python"
    (row,) = json.loads(command("status", "--format", "json").stdout)
    assert row["data_plane"] == "python"
    (run,) = json.loads(command("collect", "results", "--format", "json").stdout)["runs"]
    assert run["data_plane"] == "python"


def test_doctor_has_a_line_about_the_core(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def line() -> dict[str, object]:
        found = json.loads(command("doctor", "--format", "json").stdout)
        (row,) = (each for each in found if each["check"] == "compiled core")
        return dict(row)

    request.getfixturevalue("has_no_core")
    found = "the core is not there, so the fabric runs in Python"
    assert line() == {"check": "compiled core", "ok": False, "found": found, "what to do": "compile it"}
    request.getfixturevalue("has_core")
    monkeypatch.setattr(library, "compiler", lambda: "gcc 1.2")
    told = f"interface {library.ABI}, by gcc 1.2: the fabric takes it by default"
    assert line() == {"check": "compiled core", "ok": True, "found": told, "what to do": ""}


@pytest.mark.parametrize(
    ("machine", "asked", "ok", "told"),
    [
        ("has_core", "python", True, ": the fabric runs in Python as TESTBED_FABRIC=python says"),
        ("has_core", "native", True, ": the fabric takes it as TESTBED_FABRIC=native says"),
        ("has_core", "auto", True, ": the fabric takes it by default"),
        ("has_core", "rust", False, "TESTBED_FABRIC: there is no data plane `rust`"),
        ("has_no_core", "rust", False, "TESTBED_FABRIC: there is no data plane `rust`"),
        ("has_no_core", "python", False, "so the fabric runs in Python, as TESTBED_FABRIC=python says"),
        ("has_no_core", "native", False, "so runs are refused, as TESTBED_FABRIC=native says"),
    ],
)
def test_doctor_says_what_the_environment_makes_of_it(
    machine: str, asked: str, ok: bool, told: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    request.getfixturevalue(machine)
    monkeypatch.setattr(library, "compiler", lambda: "gcc 1.2")
    monkeypatch.setenv(DEFAULT_PLANE, asked)
    rows = {each["check"]: each for each in json.loads(command("doctor", "--format", "json").stdout)}
    row = rows["compiled core"]
    assert (row["ok"], row["found"][-len(told) :]) == (ok, told)
    assert bool(row["what to do"]) is not ok
