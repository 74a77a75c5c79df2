"""A node's place in the network is what its whole plan says; what is no plan is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.errors import InvalidInput
from testbed.plan.files import read_node_plan, write_plan
from testbed.plan.node_network import read_node_network
from testbed.plan.tcp import tcp_of
from testbed.rundir import create_run
from tests.runtimes.sim_runs import plan_of, star


def test_it_is_what_the_whole_plan_says(tmp_path: Path) -> None:
    plan = plan_of(star(3), network={"congestion": "reno"})
    run = create_run(tmp_path, "run")
    write_plan(run, plan.model_copy(update={"time_scale": 2.5}))
    for name in run.node_names():
        whole = read_node_plan(run.node(name).plan)
        tcp = tcp_of(whole)
        assert (tcp.congestion, tcp.time_scale) == ("reno", 2.5)
        assert read_node_network(run.node(name).plan) == (whole.node.address, tcp.congestion, tcp.time_scale)


@pytest.mark.parametrize("time_scale", ["0", "-1", "true", "NaN", "Infinity", "1e999", "1" + "0" * 400, '"1"', "null"])
def test_a_time_scale_that_none_can_be_is_refused(time_scale: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    text = '{"node": {"address": "198.18.0.1"}, "experiment": {"network": {"congestion": "cubic"}}, "time_scale": %s}'
    path.write_text(text % "2")
    assert read_node_network(path) == ("198.18.0.1", "cubic", 2.0)
    path.write_text(text % time_scale)
    with pytest.raises(InvalidInput, match=r"plan\.json"):
        read_node_network(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"node": {"address": 3}}', "[" * 100_000, "\xff\xfe"])
def test_what_is_no_plan_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=r"plan\.json"):
        read_node_network(path)
