"""How much a learner's container may use, and how often it is started again."""

from __future__ import annotations

import pytest

from testbed.plan.containers import LEAST_BYTES, UNKNOWN_BYTES, comebacks, limits_of, needed_memory_bytes
from tests.manifests.compose.composing import learners_in, plan_of, rendered, services_of, star, topology_of

MIB = 2**20
FRESH_PROCESS_BYTES = 245_000_000
"""What one that has loaded torch was seen to hold at most."""
EIGHT = star({"n": {"replicas": 8}})


def memory(*settings: str, parameters: int | None, rank: int = 0, source: str = EIGHT) -> int:
    return needed_memory_bytes(plan_of(topology_of(source), *settings, parameters=parameters), rank)


def test_a_small_model_has_the_floor_which_is_well_above_what_a_process_holds() -> None:
    assert memory(parameters=1) == memory(parameters=84_000) == LEAST_BYTES
    assert 2 * FRESH_PROCESS_BYTES <= LEAST_BYTES <= 3 * FRESH_PROCESS_BYTES


@pytest.mark.parametrize("parameters", [5_000_000, 25_000_000, 100_000_000])
def test_a_large_model_has_room_for_its_copies(parameters: int) -> None:
    found = memory("overlay.degree=5", parameters=parameters)
    vectors = (found - FRESH_PROCESS_BYTES) / (4 * parameters)
    assert 1.3 * (5 + 13) <= vectors <= 2 * (5 + 13) + 100e6 / parameters, "and some to spare"
    assert found % (64 * MIB) == 0


def test_peers_and_clients_cost_memory() -> None:
    ring, full = (memory(f"overlay.kind={kind}", parameters=10_000_000) for kind in ("ring", "full"))
    assert ring < full
    served = "algorithm.name=fedavg"
    server, client = (memory(served, parameters=10_000_000, rank=rank) for rank in (0, 3))
    assert server - client >= 6 * 40_000_000


def test_without_a_number_of_parameters_the_model_tells_whether_it_is_small() -> None:
    assert memory("data.name=digits", parameters=None) == LEAST_BYTES
    assert memory("data.name=digits", "model.hidden=[32]", parameters=None) == LEAST_BYTES
    assert memory("data.name=digits", "model.hidden=[4096, 4096]", parameters=None) == UNKNOWN_BYTES
    assert memory("model.name=package.module:Net", parameters=None) == UNKNOWN_BYTES


def test_a_device_has_its_own_memory_and_processors_unless_no_learner_fits_into_it() -> None:
    source = star({"a": {"memory": "4GB", "cpus": 2}, "b": {"memory": "64MB", "cpus": 0.25}, "c": {}})
    topology = topology_of(source)
    found = limits_of(plan_of(topology), topology)
    assert [each.memory_bytes for each in found] == [4_000_000_000, LEAST_BYTES, LEAST_BYTES]
    assert [each.processors for each in found] == [2, 0.25, 1]
    measured = limits_of(plan_of(topology, "compute.mode=measured"), topology)
    assert [each.processors for each in measured] == [2, 0.25, None]
    a, b, c = learners_in(services_of(rendered(source))).values()
    assert [each["mem_limit"] for each in (a, b, c)] == ["3815m", "512m", "512m"]
    assert [each["cpus"] for each in (a, b, c)] == [2, 0.25, 1]
    assert "cpus" not in services_of(rendered(source, "compute.mode=measured"))["c.0"]


@pytest.mark.parametrize(
    ("events", "returns"),
    [
        ([], [0, 0, 0]),
        ([{"at": "5s", "node": "n.1", "do": "crash"}], [0, 0, 0]),
        ([{"at": "5s", "node": "n.1", "do": "crash", "rejoin": "2s"}], [0, 1, 0]),
        ([{"at": "5s", "node": "n.1", "do": "crash"}, {"at": "8s", "node": "n.1", "do": "join"}], [0, 1, 0]),
        ([{"at": "5s", "node": "n.2", "do": "leave"}, {"at": "8s", "node": "n", "do": "join"}], [0, 0, 1]),
        ([{"at": "5s", "node": "n.1", "do": "join"}], [0, 0, 0]),
        ([{"at": "5s", "node": "n.1", "do": "join"}, {"at": "9s", "node": "n.1", "do": "crash"}], [0, 0, 0]),
        (
            [{"every": "5s", "from": "5s", "until": "20s", "node": "n", "do": "crash", "count": 1, "rejoin": "1s"}],
            [3] * 3,
        ),
        ([{"at": "5s", "node": "n.1", "do": "pause", "for": "2s"}], [0, 0, 0]),
        ([{"at": "5s", "node": "n.1", "do": "disconnect", "for": "2s"}], [0, 0, 0]),
    ],
)
def test_who_comes_back_is_started_again_as_often(events: list[dict[str, object]], returns: list[int]) -> None:
    source = star({"n": {"replicas": 3}}, events=events)
    found = comebacks(topology_of(source))
    assert [found[rank] for rank in range(3)] == returns
    restarts = [each["restart"] for each in learners_in(services_of(rendered(source))).values()]
    assert restarts == [f"on-failure:{count}" if count else "no" for count in returns]
