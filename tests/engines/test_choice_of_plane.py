"""Which data plane a fabric has: what is asked for, what can be loaded, and what is said about it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testbed.engines.fabric import planes
from testbed.engines.fabric.config import AUTO, DEFAULT_PLANE, NATIVE, PYTHON, config_of, wanted_plane
from testbed.engines.fabric.native_plane import library
from testbed.engines.fabric.start import start_fabric
from testbed.errors import CouldNotStart, PreflightRefused, UsageProblem
from testbed.image.build import NO_CORE
from testbed.plan.model import DataPlaneChoice
from testbed.runtimes.runtime import FABRIC
from tests.engines.world import configuration, pair
from tests.plan.test_files import plan_of

ROOT = Path(__file__).parents[2]
DENIED = PreflightRefused("it is not there", "make it")


@pytest.fixture(autouse=True)
def _nothing_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DEFAULT_PLANE, raising=False)


def can_be_loaded(monkeypatch: pytest.MonkeyPatch, denied: PreflightRefused | None = None) -> None:
    monkeypatch.setattr(library, "why_not", lambda: denied)


def test_the_option_has_all_data_planes() -> None:
    assert FABRIC.choices == (AUTO, *planes.PLANES) == (AUTO, NATIVE, PYTHON)


@pytest.mark.parametrize("asked", [None, AUTO, NATIVE])
def test_the_compiled_one_is_taken_where_it_can_be_loaded(asked: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    can_be_loaded(monkeypatch)
    assert planes.choose(asked) == (NATIVE, "")


def test_without_it_the_one_in_python_is_taken_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    can_be_loaded(monkeypatch, DENIED)
    name, remark = planes.choose()
    assert name == PYTHON
    assert remark == "the fabric runs in Python, about seven times slower: it is not there; make it"


def test_all_say_the_same_of_how_much_slower_python_is(monkeypatch: pytest.MonkeyPatch) -> None:
    can_be_loaded(monkeypatch, DENIED)
    slower = re.search(r"about \w+ times slower", planes.choose().remark)
    assert slower is not None
    assert slower[0] in FABRIC.help
    assert slower[0] in NO_CORE
    for place in ("docs/local.md", "hatch_build.py", "scripts/venv"):
        assert slower[0] in " ".join((ROOT / place).read_text().split()), place


def test_who_asks_for_the_compiled_one_gets_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    can_be_loaded(monkeypatch, DENIED)
    with pytest.raises(PreflightRefused, match="it is not there"):
        planes.choose(NATIVE)


def test_who_asks_for_python_gets_it_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    can_be_loaded(monkeypatch)
    assert planes.choose(PYTHON) == (PYTHON, "")


def test_the_environment_asks_where_no_option_does(monkeypatch: pytest.MonkeyPatch) -> None:
    can_be_loaded(monkeypatch)
    monkeypatch.setenv(DEFAULT_PLANE, PYTHON)
    assert planes.choose().name == PYTHON
    assert planes.choose(NATIVE).name == NATIVE
    assert wanted_plane(AUTO) == AUTO
    monkeypatch.setenv(DEFAULT_PLANE, "rust")
    with pytest.raises(UsageProblem, match="TESTBED_FABRIC: there is no data plane `rust`"):
        wanted_plane()


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        (None, AUTO),
        (DataPlaneChoice(asked=AUTO, used=None), AUTO),
        (DataPlaneChoice(asked=NATIVE, used=None), NATIVE),
        (DataPlaneChoice(asked=AUTO, used=PYTHON), PYTHON),
    ],
)
def test_a_fabric_is_told_what_was_chosen_or_else_what_is_asked_for(choice: DataPlaneChoice | None, told: str) -> None:
    plan = plan_of().model_copy(update={"data_plane": choice})
    assert config_of(plan, sockets=Path("s"), engine=Path("e")).data_plane == told


@pytest.mark.processes
def test_a_fabric_without_what_it_is_told_to_have_does_not_start(tmp_path: Path) -> None:
    """In a container, nothing has looked before."""
    if library.why_not() is None:
        pytest.skip("the compiled core is there")
    with pytest.raises(CouldNotStart, match="the fabric's compiled core"):
        start_fabric(configuration(pair(), tmp_path, tmp_path / "s", data_plane=NATIVE), tmp_path / "f")


@pytest.mark.processes
def test_a_fabric_that_may_choose_does_so(tmp_path: Path) -> None:
    config = configuration(pair(), tmp_path, tmp_path / "s", data_plane=AUTO)
    fabric = start_fabric(config, tmp_path / "f")
    assert fabric.stop() == 0
    health = (Path(config.engine) / "health.json").read_text()
    assert f'"data_plane":"{planes.choose().name}"' in health
