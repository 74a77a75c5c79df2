"""Time scales: which one is enough, what they do to a plan, and what is sent when most is sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed.errors import InvalidInput, PreflightRefused
from testbed.experiment.language import Experiment
from testbed.plan.estimate import estimate
from testbed.plan.files import read_node_plan, read_plan, write_plan
from testbed.plan.make import make_plan
from testbed.plan.model import RunPlan
from testbed.plan.rehearsed_network import LONGEST_WINDOW_S, RARE, SHORTEST_WINDOW_S, Busiest, window_of
from testbed.plan.time_scale import (
    MARGIN,
    SCALES,
    largest_scale,
    late_for_tcp,
    refuse_too_late_for_tcp,
    smallest_scale,
)
from testbed.plan.traffic import HEADER_BYTES
from testbed.rundir import create_run
from tests.plan.test_make import nodes

PARAMETERS = 250_000
MODEL = 4 * PARAMETERS + HEADER_BYTES


def plan_of(
    time_scale: float = 1.0, count: int = 4, runtime: str = "local", latency: str = "1ms", **sections: object
) -> RunPlan:
    experiment = Experiment.model_validate({"topology": "t", **sections})
    return make_plan(
        experiment,
        nodes(count, latency=latency),
        run_id="r",
        runtime=runtime,
        parameters=PARAMETERS,
        time_scale=time_scale,
    )


@pytest.mark.parametrize(("demand", "scale"), [(0.0, 1), (0.99, 1), (1.01, 2), (2.99, 3), (3.99, 4), (4.01, 6)])
def test_the_smallest_scale_that_is_enough(demand: float, scale: float) -> None:
    assert smallest_scale(demand * 60e6 / MARGIN, 60e6) == scale


def test_what_no_scale_is_enough_for_gets_the_largest() -> None:
    assert smallest_scale(1e15, 1.0) == SCALES[-1] == 1000


def test_cubic_gives_way_unless_it_was_asked_for() -> None:
    assert plan_of(1.0).experiment.network.congestion == "cubic"
    assert plan_of(4.0).experiment.network.congestion == "reno"
    assert plan_of(4.0, network={"congestion": "cubic"}).experiment.network.congestion == "cubic"


def test_every_node_is_told_and_a_plan_without_it_is_as_ever(tmp_path: Path) -> None:
    run = create_run(tmp_path, "r")
    write_plan(run, plan_of(4.0))
    assert read_plan(run.plan).time_scale == 4.0
    assert {read_node_plan(run.node(name).plan).time_scale for name in run.node_names()} == {4.0}
    old = json.loads(run.plan.read_text())
    del old["time_scale"]
    run.plan.write_text(json.dumps(old))
    assert read_plan(run.plan).time_scale == 1.0


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (0.5, "time_scale: Input should be greater than or equal to 1"),
        (1001.0, "time_scale: Input should be less than or equal to 1000"),
    ],
)
def test_a_plan_has_a_sensible_one(tmp_path: Path, wrong: float, told: str) -> None:
    run = create_run(tmp_path, "r")
    write_plan(run, plan_of())
    run.plan.write_text(json.dumps({**json.loads(run.plan.read_text()), "time_scale": wrong}))
    with pytest.raises(InvalidInput) as problem:
        read_plan(run.plan)
    assert [each.message for each in problem.value.findings] == [told]


def test_there_is_none_in_virtual_time(tmp_path: Path) -> None:
    run = create_run(tmp_path, "r")
    write_plan(run, plan_of(4.0, runtime="sim"))
    with pytest.raises(InvalidInput) as problem:
        read_plan(run.plan)
    assert "in virtual time there is nothing to scale" in problem.value.findings[0].message


def test_long_ways_are_told_of() -> None:
    """Round trips of 4 ms: 1 s of real time at 250."""
    assert not [*late_for_tcp(plan_of(1.0))]
    assert not [*late_for_tcp(plan_of(249.0))]
    (told,) = late_for_tcp(plan_of(500.0))
    assert "up to 2.0 s of real time" in told
    assert "up to --time-scale 250" in told


def test_where_no_connection_would_come_up_nothing_starts() -> None:
    """A round trip is four times a link's latency."""
    refuse_too_late_for_tcp(plan_of(1000.0))
    refuse_too_late_for_tcp(plan_of(600.0, latency="25ms"))
    refuse_too_late_for_tcp(plan_of(1.0, latency="20s"))  # it is so in the network that was asked for
    with pytest.raises(PreflightRefused, match=r"up to 61 s of real time") as refused:
        refuse_too_late_for_tcp(plan_of(610.0, latency="25ms"))
    assert refused.value.hint == "take --time-scale 600 at most"
    with pytest.raises(PreflightRefused) as refused:
        refuse_too_late_for_tcp(plan_of(2.0, latency="20s"))
    assert refused.value.hint == "take --time-scale 1, or shorter ways"


@pytest.mark.parametrize(
    ("latency", "largest"), [("0ms", 1000), ("1ms", 1000), ("25ms", 512), ("150ms", 96), ("10s", 1), ("40s", 1)]
)
def test_what_is_chosen_is_never_refused(latency: str, largest: float) -> None:
    plan = plan_of(latency=latency)
    assert largest_scale(plan) == largest
    refuse_too_late_for_tcp(plan.model_copy(update={"time_scale": largest_scale(plan)}))
    beyond = next((scale for scale in SCALES if scale > largest), None)
    if beyond is not None:
        with pytest.raises(PreflightRefused):
            refuse_too_late_for_tcp(plan.model_copy(update={"time_scale": float(beyond)}))


class TestThePeak:
    def test_an_even_stream_is_its_own_peak(self) -> None:
        busiest = Busiest()
        for number in range(1, 101):
            busiest.look(number * 0.025, number * 1000)
        assert busiest.bytes_s() == pytest.approx(40_000)

    def test_a_burst_counts_as_if_it_took_the_whole_window(self) -> None:
        busiest = Busiest()
        for at_s, sent in ((5.0, 0), (5.025, 1000), (9.0, 1000)):
            busiest.look(at_s, sent)
        assert busiest.bytes_s() == pytest.approx(1000 / LONGEST_WINDOW_S)

    @pytest.mark.parametrize(("hurry_bytes", "peak"), [(0.5 * RARE, 1000.0), (2 * RARE, 2900.0)])
    def test_a_hundredth_of_all_bytes_may_be_in_a_greater_hurry(self, hurry_bytes: float, peak: float) -> None:
        """After ten seconds of 1000 bytes each, so many of them in 10 ms."""
        busiest = Busiest()
        for at_s in range(1, 11):
            busiest.look(float(at_s), at_s * 1000)
        busiest.look(10.01, 10_000 + round(hurry_bytes * 10_000))
        assert busiest.bytes_s() == pytest.approx(peak, rel=1e-3)

    def test_nothing_has_none(self) -> None:
        busiest = Busiest()
        assert busiest.bytes_s() == 0.0
        busiest.look(1.0, 0)
        assert busiest.bytes_s() == 0.0

    def test_of_a_run_it_is_what_the_access_links_carry(self) -> None:
        """Messages of 1 MB over links of 8 Mbit/s: four nodes, 1 MB/s each, for seconds."""
        cost = estimate(plan_of(overlay="ring"))
        assert not cost.peak_is_bound
        assert cost.peak_bytes_s is not None
        assert 0.6 * 4e6 < cost.peak_bytes_s <= 4e6

    def test_short_messages_are_no_burden(self) -> None:
        """All of a round in a few milliseconds: what counts is the window."""
        experiment = Experiment.model_validate({"topology": "t", "overlay": "ring"})
        cost = estimate(make_plan(experiment, nodes(4), run_id="r", parameters=100, nominal_ms_per_step=100))
        round_bytes, window_s = 8 * (400 + HEADER_BYTES), SHORTEST_WINDOW_S
        assert cost.peak_bytes_s == pytest.approx(round_bytes / window_s, rel=0.3)

    def test_on_short_ways_shorter_bursts_count(self) -> None:
        assert (window_of(0.0), window_of(0.015), window_of(1.0)) == (SHORTEST_WINDOW_S, 0.06, LONGEST_WINDOW_S)

    def test_what_is_not_rehearsed_is_bounded(self) -> None:
        cost = estimate(plan_of(count=100, overlay="full"))
        assert cost.peak_is_bound
        assert cost.peak_bytes_s == 100 * 1e6

    def test_what_is_not_known_is_not_made_up(self) -> None:
        experiment = Experiment.model_validate({"topology": "t"})
        assert estimate(make_plan(experiment, nodes(4), run_id="r")).peak_bytes_s is None
