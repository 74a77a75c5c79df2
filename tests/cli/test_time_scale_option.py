"""`deploy --time-scale`: what is chosen, what is refused, and what is said of it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from testbed.cli.main import main
from testbed.errors import PreflightRefused
from testbed.plan.model import RunPlan
from testbed.runtimes.machine_speed import StepTimes
from testbed.runtimes.processes.runtime import LocalRuntime
from testbed.runtimes.runtime import Checking
from tests.runtimes.local_runs import locally, needs_network
from tests.runtimes.sim_runs import plan_of, star

SMALL = """
services:
  a: {replicas: 4}
bridges: [r]
links: [{from: a, to: r, latency: 1ms, rate: 10Mbps}]
"""
TIMES = StepTimes(least=160.0, sustained=200.0)


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL)
    monkeypatch.setattr("testbed.runtimes.machine_speed.step_times", lambda *_: TIMES)


def carries(monkeypatch: pytest.MonkeyPatch, bytes_s: float) -> None:
    for where in ("fitting", "needs"):
        monkeypatch.setattr(f"testbed.runtimes.{where}.carried_bytes_s", lambda _: bytes_s)


def deploy(*arguments: str, runtime: str = "local") -> Result:
    words = ["deploy", "small.yaml", "--runtime", runtime, "--data", "digits", "--dry-run", "--format", "json"]
    return CliRunner().invoke(main, [*words, *arguments])


def planned(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.stderr
    return dict(json.loads(result.stdout))


def test_one_is_enough_where_little_is_sent() -> None:
    result = deploy()
    plan = planned(result)
    assert (plan["time_scale"], plan["ms_per_step"]) == (1.0, 200.0)
    assert plan["experiment"]["network"]["congestion"] == "cubic"
    assert "time scale" not in result.stderr


def test_as_much_as_the_machine_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """120 kB a round at once, and no more than 1.2 MB a second: 4 times is too little with a margin."""
    carries(monkeypatch, 1.2e6)
    result = deploy()
    plan = planned(result)
    assert plan["time_scale"] == 6.0
    assert plan["ms_per_step"] == 33.0  # the same 200 ms of real time
    assert plan["experiment"]["network"]["congestion"] == "reno"
    said = re.search(r"time scale 6: the nodes would send up to ([\d.]+) MB/s", result.stderr)
    assert said is not None
    assert float(said[1]) == pytest.approx(plan["estimate"]["peak_bytes_s"] / 1e6, rel=0.01)
    assert "this machine carries 1.2 MB/s" in result.stderr
    longer = "warning: a local step takes 33 ms instead of 10 ms: this machine cannot train 4 learners faster\n"
    assert longer in result.stderr
    assert longer in deploy("--quiet").stderr, "since it changes the experiment"
    assert plan["asked"] == {"ms_per_step": 10.0, "congestion": "cubic"}
    assert "TCP's congestion control: reno instead of cubic" in result.stderr


def test_shorter_steps_send_more_so_that_the_time_scale_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """6 would carry what is sent with the steps of time scale 1, and 12 what is sent with those of 6."""
    Path("small.yaml").write_text(SMALL.replace("10Mbps", "1Gbps"))
    carries(monkeypatch, 1e6)
    plan = planned(deploy("--steps", "1"))
    assert (plan["time_scale"], plan["ms_per_step"]) == (12.0, 17.0)


def test_a_machine_that_trains_fast_enough_takes_the_step_of_the_nominal_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same as in virtual time."""
    monkeypatch.setattr("testbed.runtimes.machine_speed.step_times", lambda *_: StepTimes(least=5.0, sustained=9.0))
    result = deploy()
    plan = planned(result)
    assert plan["ms_per_step"] == plan["asked"]["ms_per_step"] == planned(deploy(runtime="sim"))["ms_per_step"] == 10.0
    assert "a local step takes 10 ms\n" in result.stderr
    assert "TCP's congestion control: cubic\n" in result.stderr


def test_a_step_is_no_shorter_than_asked_for_on_any_time_scale() -> None:
    plan = planned(deploy("--time-scale", "100"))
    assert (plan["time_scale"], plan["ms_per_step"]) == (100.0, 10.0)


def test_a_step_that_is_measured_is_what_this_machine_takes() -> None:
    """There is nothing to keep up with: the figure is for the estimate alone."""
    result = deploy("--set", "compute.mode=measured", "--time-scale", "100")
    plan = planned(result)
    assert plan["ms_per_step"] == plan["asked"]["ms_per_step"] == 2.0
    assert "a local step" not in result.stderr


def test_not_more_than_connections_bear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Round trips of 8 s: with more than 7.5 none would come up."""
    Path("small.yaml").write_text(SMALL.replace("1ms", "2s"))
    carries(monkeypatch, 1e3)
    result = deploy()
    assert planned(result)["time_scale"] == 6.0
    assert "time scale 6: the nodes would send up to" in result.stderr
    assert "would carry all of it, but is more than the kernel's connections bear" in result.stderr
    assert "--runtime sim" in result.stderr
    enough = deploy("--time-scale", "6")
    assert planned(enough)["time_scale"] == 6.0
    assert "would carry all of it" not in enough.stderr
    refused = deploy("--time-scale", "1000")
    assert (refused.exit_code, "the kernel gives up connections" in refused.stderr) == (4, True)
    assert planned(deploy("--time-scale", "1000", "--engine", "none"))["time_scale"] == 1000.0


def test_what_no_scale_is_enough_for_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    carries(monkeypatch, 10.0)
    result = deploy()
    assert planned(result)["time_scale"] == 1000.0
    assert "not even 1000 carries all of it" in result.stderr


@pytest.mark.parametrize(("asked", "scale", "step_ms"), [("4", 4.0, 50.0), ("2.5", 2.5, 80.0), ("1", 1.0, 200.0)])
def test_as_much_as_is_asked_for(asked: str, scale: float, step_ms: float, monkeypatch: pytest.MonkeyPatch) -> None:
    carries(monkeypatch, 0.3e6)
    plan = planned(deploy("--time-scale", asked))
    assert (plan["time_scale"], plan["ms_per_step"]) == (scale, step_ms)


def earlier(name: str, **differs: object) -> None:
    """A run is there of the same experiment, but for what is said."""
    nodes = [{"learner": number} for number in range(4)]
    plan = planned(deploy()) | {"nodes": nodes, "ms_per_step": 210.0} | differs
    Path("results", name).mkdir(parents=True)
    Path("results", name, "plan.json").write_text(json.dumps(plan))


def test_runs_beside_one_another_have_the_same_step() -> None:
    """Whatever this machine measures before each of them, as long as it is about the same."""
    earlier("first")
    result = deploy("--seed", "2", "--lr", "0.3")
    assert planned(result)["ms_per_step"] == 210.0
    assert "as in first, so that the two compare" in result.stderr


def test_runs_of_another_time_scale_have_their_own_step() -> None:
    earlier("slow", ms_per_step=105.0, time_scale=2.0)
    earlier("slower", ms_per_step=53.0, time_scale=4.0)
    os.utime(Path("results", "slower", "plan.json"), (1, 1))
    assert planned(deploy())["ms_per_step"] == 200.0
    result = deploy("--time-scale", "4")
    assert planned(result)["ms_per_step"] == 53.0
    assert "as in slower" in result.stderr


@pytest.mark.parametrize(("before_ms", "both_ms"), [(170.0, "200"), (310.0, "310")])
def test_what_no_longer_fits_is_not_taken_again(before_ms: float, both_ms: str) -> None:
    earlier("first", ms_per_step=before_ms)
    result = deploy()
    assert planned(result)["ms_per_step"] == 200.0
    assert f"in first it took {before_ms:g} ms, so their times do not compare" in result.stderr
    assert f"--set compute.ms_per_step={both_ms} for both" in result.stderr


@pytest.mark.parametrize(
    "differs",
    [
        {"runtime": "sim"},
        {"nodes": [{"learner": 0}]},
        {"experiment": {}},
        {"ms_per_step": "many"},
    ],
)
def test_runs_of_something_else_say_nothing(differs: dict[str, object]) -> None:
    earlier("first", **differs)
    result = deploy()
    assert planned(result)["ms_per_step"] == 200.0
    assert "first" not in result.stderr


@pytest.mark.parametrize("option", [("--batch", "4"), ("--steps", "9"), ("--model", "logistic")])
def test_runs_that_train_otherwise_say_nothing(option: tuple[str, str]) -> None:
    earlier("first")
    result = deploy(*option)
    assert planned(result)["ms_per_step"] == 200.0
    assert "first" not in result.stderr


def overload(name: str) -> None:
    Path("results", name, "summary.json").write_text(json.dumps({"health": "overloaded", "why": ["late"]}))


def test_what_this_machine_did_not_keep_up_with_is_not_taken_again() -> None:
    earlier("first")
    overload("first")
    assert planned(deploy())["ms_per_step"] == 200.0


@pytest.mark.parametrize(("before_ms", "then_ms"), [(190.0, 200.0), (200.0, 200.0), (210.0, 210.0)])
def test_a_step_that_was_too_short_once_is_at_least_what_is_measured(before_ms: float, then_ms: float) -> None:
    """Who has overloaded a machine with it would do so again and again; but other things overload machines, too."""
    for name in ("first", "second"):
        earlier(name, ms_per_step=before_ms)
    overload("second")
    assert planned(deploy())["ms_per_step"] == then_ms


def test_folders_that_one_may_not_look_into_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mounted file system's `lost+found`, and runs of other users."""
    earlier("first")
    Path("results", "lost+found").mkdir()
    exists = Path.exists

    def is_there(path: Path) -> bool:
        if path.parent.name == "lost+found":
            raise PermissionError(13, "Permission denied", str(path))
        return exists(path)

    monkeypatch.setattr(Path, "exists", is_there)
    assert planned(deploy())["ms_per_step"] == 210.0


def test_the_last_of_several_runs_counts() -> None:
    for number, name in enumerate(("b", "c", "a")):
        earlier(name, ms_per_step=190.0 + 10 * number)
        os.utime(Path("results", name, "plan.json"), (number, number))
    assert planned(deploy())["ms_per_step"] == 210.0


def test_a_step_that_is_told_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    carries(monkeypatch, 1.2e6)
    plan = planned(deploy("--set", "compute.ms_per_step=20"))
    assert (plan["time_scale"], plan["ms_per_step"]) == (6.0, 20.0)


def test_without_an_engine_there_is_nothing_to_carry(monkeypatch: pytest.MonkeyPatch) -> None:
    carries(monkeypatch, 1.0)
    assert planned(deploy("--engine", "none"))["time_scale"] == 1.0
    assert planned(deploy("--engine", "none", "--time-scale", "3"))["time_scale"] == 3.0


def test_a_plan_tells_people() -> None:
    assert "4: everything takes 4 times longer" in deploy("--time-scale", "4", "--format", "table").stdout
    assert "time scale" not in deploy("--time-scale", "1", "--format", "table").stdout


def test_virtual_time_has_none() -> None:
    refused = deploy("--time-scale", "4", runtime="sim")
    assert refused.exit_code == 2
    assert "runtime `sim`, virtual time, takes no --time-scale" in refused.stderr
    assert "--time-scale is for --runtime docker or local" in refused.stderr
    assert planned(deploy("--time-scale", "auto", runtime="sim"))["time_scale"] == 1.0
    assert planned(deploy("--time-scale", "1", runtime="sim"))["time_scale"] == 1.0


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("0.5", "0.5 is below 1: real time cannot be made to pass faster"),
        ("0", "0 is below 1"),
        ("1001", "at most 1000"),
        ("inf", "at most 1000"),
        ("nan", "at most 1000"),
        ("fast", "`fast` is neither a number nor auto"),
    ],
)
def test_what_is_no_time_scale(asked: str, words: str) -> None:
    refused = deploy("--time-scale", asked)
    assert refused.exit_code == 2
    assert words in " ".join(refused.stderr.split())


def test_a_plan_is_complete(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    for scale in ("1", "2"):
        refused = CliRunner().invoke(main, ["deploy", "--plan", "plan.json", "--time-scale", scale])
        assert (refused.exit_code, "a plan is complete" in refused.stderr) == (2, True)


def test_the_last_resort_is_told_in_the_help() -> None:
    assert "--time-scale" in CliRunner().invoke(main, ["deploy", "--help"]).stdout


@needs_network
class TestBeforeAnythingStarts:
    """A local step of 50 ms, where this machine needs 160 to 200."""

    def plan(self, time_scale: float = 1.0, **more: Any) -> RunPlan:
        made = plan_of(star(4), **{"compute": {"ms_per_step": 50}, **more})
        return locally(made).model_copy(update={"time_scale": time_scale, "parameters": 2410})

    def said(self, plan: RunPlan, *, force: bool = False, is_fitted: bool = False) -> list[str]:
        found: list[str] = []
        LocalRuntime().check(plan, Checking(Path("r"), {}, found.append, force=force, is_fitted=is_fitted, dry=False))
        return found

    def test_steps_that_are_too_fast_are_refused(self) -> None:
        with pytest.raises(PreflightRefused) as refused:
            self.said(self.plan())
        assert refused.value.exit_code == 4
        assert "real time of a local step of 4 learners: 160 to 200 ms needed, 50 ms there" in refused.value.message
        assert "--time-scale 4 or --set compute.ms_per_step=200" in refused.value.hint

    def test_steps_are_as_long_as_the_time_scale_makes_them(self) -> None:
        assert self.said(self.plan(4.0)) == []
        (told,) = self.said(self.plan(3.5))
        assert "160 to 200 ms needed, 175 ms there; better --time-scale 4" in told
        with pytest.raises(PreflightRefused) as refused:
            self.said(self.plan(3.0))
        assert "--set compute.ms_per_step=67" in refused.value.hint

    def test_who_insists_is_warned(self) -> None:
        (told,) = self.said(self.plan(), force=True)
        assert told.startswith("warning: processors: real time of a local step")

    def test_too_much_traffic_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        plan = self.plan(4.0)
        carries(monkeypatch, 0.01e6)
        with pytest.raises(PreflightRefused) as refused:
            self.said(plan)
        assert "traffic at its peak: " in refused.value.message
        assert "0.01 MB/s there" in refused.value.message
        assert "--time-scale " in refused.value.hint
        assert self.said(plan, is_fitted=True) == []
        (told,) = self.said(plan, force=True)
        assert "traffic at its peak" in told

    def test_somewhat_too_much_is_a_warning(self, monkeypatch: pytest.MonkeyPatch) -> None:
        carries(monkeypatch, 0.5e6)
        (told,) = self.said(self.plan(4.0))
        assert "0.5 MB/s there; better --time-scale 8" in told

    def test_what_has_no_engine_is_not_carried(self, monkeypatch: pytest.MonkeyPatch) -> None:
        carries(monkeypatch, 1.0)
        assert self.said(self.plan(4.0).model_copy(update={"engine": "none"})) == []
