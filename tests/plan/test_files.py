"""Plans as files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import InvalidInput, UsageProblem
from testbed.experiment.language import Experiment
from testbed.plan.files import changed_inputs, read_node_plan, read_plan, split, to_text, write_plan
from testbed.plan.make import make_plan
from testbed.plan.model import RunPlan
from testbed.rundir import RunDirectory, create_run
from testbed.topologies.load import load
from tests.plan.test_make import nodes


def plan_of(**sections: Any) -> RunPlan:
    return make_plan(
        Experiment.model_validate({"topology": "t", **sections}),
        nodes(5),
        run_id="one",
        parameters=10,
        samples=None,
        versions={"testbed": "0"},
        inputs={"t": "abc"},
    )


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return create_run(tmp_path, "one")


def test_what_is_written_is_read(run: RunDirectory) -> None:
    plan = plan_of(algorithm="fedavg", stop={"time": "5s"})
    write_plan(run, plan)
    assert read_plan(run.plan) == plan
    assert load(run.topology).require() == plan.load_topology() == nodes(5)
    assert run.node_names() == ["a.0", "a.1", "a.2", "a.3", "a.4"]
    for share in split(plan):
        assert read_node_plan(run.node(share.node.name).plan) == share
    assert not list(run.path.rglob("*.tmp"))


def test_the_same_plan_is_the_same_text(run: RunDirectory) -> None:
    write_plan(run, plan_of())
    assert run.plan.read_text() == to_text(plan_of()) == to_text(read_plan(run.plan))
    assert list(json.loads(run.plan.read_text()))[:3] == ["schema", "run_id", "seed"]


def test_a_share_is_small_and_knows_its_own() -> None:
    plan = plan_of(overlay="ring")
    shares = list(split(plan))
    assert [share.neighbours for share in shares] == [(1, 4), (0, 2), (1, 3), (2, 4), (0, 3)]
    assert all(share.overlay.neighbours is None for share in shares)
    assert shares[2].ranks[2] == "a.2"
    assert shares[2].addresses[2] == plan.nodes[2].address == "198.18.0.3"
    assert "run_id" not in shares[0].document()


def test_a_servers_neighbours_are_all_that_learn() -> None:
    shares = list(split(plan_of(algorithm={"name": "fedavg", "server": "a.1"})))
    assert shares[1].neighbours == (0, 2, 3, 4)
    assert shares[0].neighbours == (1,)


def test_nobody_has_neighbours_beforehand_when_they_change() -> None:
    assert {share.neighbours for share in split(plan_of(overlay={"dynamic": True, "degree": 4}))} == {None}


def changed(run: RunDirectory, **values: Any) -> list[str]:
    write_plan(run, plan_of())
    document = json.loads(run.plan.read_text())
    run.plan.write_text(json.dumps({**document, **values}))
    with pytest.raises(InvalidInput) as caught:
        read_plan(run.plan)
    assert caught.value.exit_code == 3
    return [each.message for each in caught.value.findings]


def test_wrong_values_are_named_by_their_keys(run: RunDirectory) -> None:
    assert changed(run, seed="x") == ["seed: Input should be a valid integer, unable to parse string as an integer"]
    assert changed(run, more=1) == ["more: Extra inputs are not permitted"]
    (told,) = changed(run, experiment={"topology": "t", "training": {"lrr": 1}})
    assert told == "experiment.training.lrr: Extra inputs are not permitted"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"schema": 2}, "it has schema 2; this testbed reads schema 1"),
        ({"schema": None}, "it does not say which schema it has"),
        ({"server": 5}, "server: it is 5, the nodes with the role `server` are []"),
        ({"samples": [1]}, "samples: 1 entries for 5 learners"),
        ({"samples": [1, 1, 0, 1, 1]}, "samples.2: Input should be greater than or equal to 1"),
        ({"nodes": []}, "nodes: there are 0, the topology has 5"),
        ({"ms_per_step": -1.0}, "ms_per_step: Input should be greater than 0"),
        ({"ms_per_step": 0.0}, "ms_per_step: Input should be greater than 0"),
        ({"seed": -1}, "seed: Input should be greater than or equal to 0"),
        ({"topology": {"services": {"a": {"replicas": 4}}}}, "nodes: there are 5, the topology has 4"),
        ({"topology": {"servicess": {}}}, "topology: "),
        ({"topology": {"services": {"a": [[[]]]}}}, "topology: "),
    ],
)
def test_plans_that_make_no_sense(run: RunDirectory, values: dict[str, Any], told: str) -> None:
    assert changed(run, **values)[0].startswith(told)


@pytest.mark.parametrize(
    ("at", "values", "told"),
    [
        (1, {"name": "../../../escaped"}, "nodes.1.name: it is `../../../escaped`, it must be `a.1`"),
        (2, {"name": "a.1"}, "nodes.2.name: it is `a.1`, it must be `a.2`"),
        (3, {"rank": 1}, "nodes.3.rank: it is `1`, it must be `3`"),
        (3, {"service": "b"}, "nodes.3.service: it is `b`, it must be `a`"),
        (4, {"learner": 3}, "nodes.4.learner: it is `3`, it must be `4`"),
        (4, {"roles": []}, "nodes.4.learner: it is `4`, it must be `None`"),
        (4, {"roles": ["learner", "server"]}, "server: it is None, the nodes with the role `server` are [4]"),
        (1, {"address": "8.8.8.8"}, "nodes.1.address: `8.8.8.8` of `a.1` is outside of 198.18.0.0/15"),
        (1, {"address": "127.0.0.1"}, "nodes.1.address: `127.0.0.1` of `a.1` is outside of 198.18.0.0/15"),
        (1, {"address": "255.255.255.255"}, "nodes.1.address: `255.255.255.255` of `a.1` is outside"),
        (1, {"address": "198.20.0.1"}, "nodes.1.address: `198.20.0.1` of `a.1` is outside of 198.18.0.0/15"),
        (1, {"address": "198.18.1.0"}, "nodes.1.address: `198.18.1.0` of `a.1` ends with 0 or 255"),
        (1, {"address": "198.18.0.1"}, "nodes.1.address: `198.18.0.1` of `a.1` is the address of `a.0` already"),
        (1, {"address": "10.0.0.999"}, "nodes.1.address: `10.0.0.999` of `a.1` is no IPv4 address"),
        (1, {"address": ""}, "nodes.1.address: `` of `a.1` is no IPv4 address"),
        (0, {"pace": []}, "nodes.0.pace: Tuple should have at least 1 item"),
        (0, {"pace": [[1.0, 1.0]]}, "nodes.0.pace: its times must begin with 0 and ascend"),
        (0, {"pace": [[0.0, 1.0], [0.0, 2.0]]}, "nodes.0.pace: its times must begin with 0 and ascend"),
        (0, {"pace": [[0.0, -1.0]]}, "nodes.0.pace: a factor must be above 0"),
    ],
)
def test_nodes_must_be_those_of_the_topology(run: RunDirectory, at: int, values: dict[str, Any], told: str) -> None:
    nodes = plan_of().document()["nodes"]
    assert isinstance(nodes, list)
    nodes[at] = {**nodes[at], **values}  # type: ignore[dict-item]
    assert changed(run, nodes=nodes)[0].startswith(told)


@pytest.mark.parametrize(
    ("neighbours", "told"),
    [
        ([[0, 1, 4], [0, 2], [1, 3], [2, 4], [0, 3]], "overlay.neighbours.0: 0 is its own neighbour"),
        (
            [[1, 5], [0, 2], [1, 3], [2, 4], [3]],
            "overlay.neighbours.0: 5 is not the rank of a node that learns or serves",
        ),
        ([[-1, 1], [0, 2], [1, 3], [2, 4], [3]], "overlay.neighbours.0: -1 is not the rank"),
        ([[4, 1], [0, 2], [1, 3], [2, 4], [0, 3]], "overlay.neighbours.0: ranks must ascend"),
        ([[1, 1, 4], [0, 2], [1, 3], [2, 4], [0, 3]], "overlay.neighbours.0: ranks must ascend"),
        ([[1, 4], [0, 2], [1, 3], [2, 4], [3]], "overlay.neighbours.0: 4 is a neighbour of 0, but not 0 of 4"),
        ([[1]], "overlay.neighbours: 1 entries for 5 learners"),
        (None, "overlay.neighbours: a static overlay needs them"),
    ],
)
def test_neighbours_must_be_each_others(run: RunDirectory, neighbours: Any, told: str) -> None:
    overlay = plan_of(overlay="ring").document()["overlay"]
    assert isinstance(overlay, dict)
    assert changed(run, overlay={**overlay, "neighbours": neighbours})[0].startswith(told)


@pytest.mark.parametrize("kind", ["cyclon", "regular"])
def test_views_belong_to_cyclon(run: RunDirectory, kind: str) -> None:
    plan = plan_of(algorithm="gossip", overlay="cyclon" if kind == "regular" else {"dynamic": True, "degree": 4})
    overlay = plan.document()["overlay"]
    assert isinstance(overlay, dict)
    told = "overlay.views: an overlay of the kind cyclon has them"
    assert changed(run, overlay={**overlay, "kind": kind})[0].startswith(told)


@pytest.mark.parametrize(
    "sections",
    [
        {"overlay": "ring"},
        {"overlay": "network"},
        {"overlay": {"dynamic": True, "degree": 4, "peers": "sampler", "sampler": "a.3"}},
        {"algorithm": "gossip", "overlay": {"kind": "cyclon", "view": 3}},
        {"algorithm": {"name": "parameter-server", "server": "a.4"}},
        {"algorithm": {"name": "module:Own", "server": "a.1"}, "overlay": "full"},
        {"algorithm": "epidemic"},
        {"compute": {"factors": [{"nodes": ["*"], "trace": [[5, 4], [9, 1]]}]}},
    ],
)
def test_every_kind_of_plan_is_read_back(run: RunDirectory, sections: dict[str, Any]) -> None:
    write_plan(run, plan_of(**sections))
    assert read_plan(run.plan) == plan_of(**sections)


@pytest.mark.parametrize(
    ("data", "code", "where"),
    [
        (b"", "syntax", (1, 1)),
        (b'{"schema": 1,\n  x}', "syntax", (2, 3)),
        (b"[]", "bad-shape", (1, 1)),
        (b"\xff", "encoding", (1, 1)),
        (b"[" * 200_000, "too-deep", (1, 1)),
    ],
)
def test_what_is_no_plan(tmp_path: Path, data: bytes, code: str, where: tuple[int, int]) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(data)
    with pytest.raises(InvalidInput) as caught:
        read_plan(path)
    assert [(each.code, tuple(each.where)) for each in caught.value.findings] == [(code, where)]


def test_a_plan_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem):
        read_plan(tmp_path / "plan.json")
    with pytest.raises(UsageProblem):
        read_plan(tmp_path)


def test_a_plan_knows_when_its_code_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = Path("gossip.py")
    code.write_text("one")
    experiment = Experiment.model_validate({"topology": "lan4.xml", "algorithm": {"name": "gossip.py:Gossip"}})
    inputs = {"gossip.py": hashlib.sha256(b"one").hexdigest()}
    plan = make_plan(experiment, nodes(5), run_id="r", inputs=inputs)
    assert not list(changed_inputs(plan))
    code.write_text("another")
    assert list(changed_inputs(plan)) == ["gossip.py"]
    code.unlink()
    assert list(changed_inputs(plan)) == ["gossip.py"]
