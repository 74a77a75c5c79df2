"""From an experiment and a topology to a plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testbed.catalogue.sharings import SHARINGS
from testbed.errors import InvalidInput
from testbed.experiment.language import Experiment
from testbed.experiment.read import load_experiment
from testbed.plan.addresses import MOST_ADDRESSES, address
from testbed.plan.make import NOMINAL_MS_PER_STEP, make_plan
from testbed.plan.model import RunPlan
from testbed.topologies.bundled import BUNDLED, find_bundled
from testbed.topologies.load import load, load_bytes
from testbed.topologies.model import MAX_NODES, Topology
from testbed.topologies.source import Form


def nodes(count: int, more: str = "", latency: str = "1ms") -> Topology:
    text = (
        f"services: {{a: {{replicas: {count}}}}}\nbridges: [s]\n"
        f"links: [{{from: a, to: s, latency: {latency}, rate: 8Mbps}}]\n{more}"
    )
    return load_bytes(text.encode(), Form.YAML, "t.yaml").require()


def plan_of(topology: Topology | int, **sections: Any) -> RunPlan:
    made = nodes(topology) if isinstance(topology, int) else topology
    return make_plan(Experiment.model_validate({"topology": "t", **sections}), made, run_id="r")


def problems(topology: Topology | int, **sections: Any) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        plan_of(topology, **sections)
    return [f"{each.code}: {each.message} / {each.hint}" for each in caught.value.findings]


def test_dpsgd_all_learn() -> None:
    plan = plan_of(8)
    assert [node.name for node in plan.nodes] == [f"a.{replica}" for replica in range(8)]
    assert {node.roles for node in plan.nodes} == {("learner",)}
    assert [node.learner for node in plan.nodes] == list(range(8))
    assert plan.overlay.neighbours is not None
    assert {len(others) for others in plan.overlay.neighbours} == {5}
    assert (plan.server, plan.overlay.degree, plan.engine, plan.ms_per_step) == (None, 5, "flows", NOMINAL_MS_PER_STEP)


@pytest.mark.parametrize("count", range(1, 12))
def test_the_defaults_fit_any_number_of_nodes(count: int) -> None:
    plan = plan_of(count)
    assert plan.overlay.neighbours is not None
    assert len({len(others) for others in plan.overlay.neighbours}) == 1
    epidemic = plan_of(count, algorithm="epidemic")
    assert epidemic.overlay.degree is not None
    assert epidemic.overlay.degree <= count - 1
    assert RunPlan.model_validate(epidemic.document()) == epidemic


@pytest.mark.parametrize(
    ("count", "keys", "planned"),
    [
        (40, {}, (20, 8, 1.0, 5)),
        (16, {}, (15, 8, 1.0, 5)),
        (4, {}, (3, 3, 1.0, 3)),
        (1, {}, (0, 0, 1.0, 0)),
        (40, {"view": 4}, (4, 4, 1.0, 4)),
        (40, {"view": 30, "shuffle": 2, "period": "250ms", "degree": 9}, (30, 2, 0.25, 9)),
    ],
)
def test_views_fit_any_number_of_nodes(count: int, keys: dict[str, Any], planned: tuple[float, ...]) -> None:
    plan = plan_of(count, algorithm="gossip", overlay={"kind": "cyclon", **keys})
    views = plan.overlay.views
    assert views is not None
    assert [views.size, views.shuffle, views.period_s, plan.overlay.degree] == list(planned)
    assert (plan.overlay.neighbours, plan.overlay.dynamic) == (None, True)
    assert RunPlan.model_validate(plan.document()) == plan
    assert plan_of(count).overlay.views is None


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"dynamic": True}, "overlay.dynamic: `cyclon` draws other neighbours every round anyway / remove `dynamic`"),
        ({"peers": "sampler"}, "overlay.peers: with cyclon nodes find their peers themselves / remove `peers`"),
        ({"shuffle": 21}, "overlay.shuffle: 21 entries of a view of 20 cannot be sent / write at most 20"),
        ({"degree": 8}, "overlay.degree: a degree of 8 needs larger views: they have 7 / write at most 7"),
        ({"view": 3, "degree": 4}, "overlay.degree: a degree of 4 needs larger views: they have 3 / write at most 3"),
    ],
)
def test_views_that_do_not_fit(keys: dict[str, Any], told: str) -> None:
    assert problems(8, algorithm="gossip", overlay={"kind": "cyclon", **keys}) == [f"overlay: {told}"]


@pytest.mark.parametrize("name", ["fedavg", "parameter-server"])
def test_the_server_only_serves(name: str) -> None:
    plan = plan_of(5, algorithm={"name": name, "server": "a.2"})
    assert plan.server == 2
    assert [node.roles for node in plan.nodes] == [("learner",)] * 2 + [("server",)] + [("learner",)] * 2
    assert [node.learner for node in plan.nodes] == [0, 1, None, 2, 3]
    assert plan.overlay.neighbours == ((2,),) * 4
    assert plan_of(5, algorithm=name).server == 0


def test_code_has_a_server_only_if_one_is_named() -> None:
    assert plan_of(4, algorithm="a:B").server is None
    plan = plan_of(4, algorithm={"name": "a:B", "server": "a.1"}, overlay="full")
    assert plan.server == 1
    assert plan.overlay.neighbours == ((2, 3), (0, 3), (0, 2))


def test_the_sampler_learns_too() -> None:
    plan = plan_of(6, overlay={"dynamic": True, "peers": "sampler", "sampler": "a.3"})
    assert plan.nodes[3].roles == ("learner", "sampler")
    assert (plan.overlay.sampler, plan.overlay.neighbours) == (3, None)
    assert plan_of(6, overlay={"dynamic": True, "peers": "sampler"}).overlay.sampler == 0


@pytest.mark.parametrize(
    ("options", "count", "fanout"),
    [({}, 96, 7), ({}, 8, 3), ({}, 7, 4), ({"mode": "local"}, 7, 3), ({"fanout": 2}, 9, 2), ({}, 1, None), ({}, 2, 1)],
)
def test_epidemic_knows_its_fanout(options: dict[str, Any], count: int, fanout: int | None) -> None:
    plan = plan_of(count, algorithm={"name": "epidemic", **options})
    assert plan.experiment.algorithm.options["fanout"] == fanout
    assert plan.overlay.degree == (fanout or 0)
    assert plan.overlay.dynamic
    assert plan.overlay.kind == ("full" if options else "regular") or "fanout" in options


def test_epidemic_takes_degree_for_fanout() -> None:
    assert plan_of(9, algorithm="epidemic", overlay={"degree": 4}).experiment.algorithm.options["fanout"] == 4


def test_the_number_of_recipients_is_an_option_by_its_own_name() -> None:
    plan = plan_of(9, algorithm={"name": "divshare", "recipients": 3})
    assert (plan.overlay.kind, plan.overlay.degree, plan.experiment.algorithm.options["recipients"]) == ("full", 3, 3)
    assert "fanout" not in plan.experiment.algorithm.options
    assert plan_of(9, algorithm="divshare").experiment.algorithm.options["recipients"] == 4


@pytest.mark.parametrize(
    ("count", "sections", "told"),
    [
        (4, {"overlay": {"degree": 4}}, "overlay: overlay.degree: a degree of 4 needs more than 4 learners"),
        (5, {"overlay": {"degree": 3}}, "overlay: overlay.degree: no graph over 5 learners"),
        (4, {"overlay": {"kind": "ring", "degree": 2}}, "overlay: overlay.degree: `ring` has no degree"),
        (4, {"overlay": {"kind": "full", "dynamic": True}}, "overlay: overlay.dynamic: `full` is the same"),
        (4, {"overlay": {"peers": "sampler"}}, "overlay: overlay.peers: a peer sampler is for dynamic"),
        (4, {"overlay": {"sampler": "a.0"}}, "sampler: overlay.sampler: no node asks it"),
        (4, {"algorithm": {"server": "a.0"}}, "server: algorithm.server: dpsgd has no server"),
        (1, {"algorithm": "fedavg"}, "no-learners: topology: the server is the only node"),
        (4, {"algorithm": {"name": "fedavg", "server": "a.4"}}, "unknown-node: algorithm.server: there is no node"),
        (4, {"algorithm": "fedavg", "overlay": "ring"}, "overlay: overlay: with fedavg all exchange with the server"),
        (4, {"algorithm": "epidemic", "overlay": "ring"}, "overlay: overlay.kind: epidemic draws its peers"),
        (
            4,
            {"algorithm": "epidemic", "overlay": {"peers": "sampler"}},
            "overlay: overlay.peers: with epidemic every node",
        ),
        (
            4,
            {"algorithm": {"name": "epidemic", "mode": "local"}, "overlay": {"peers": "sampler"}},
            "overlay: overlay.peers: with epidemic every node",
        ),
        (9, {"algorithm": {"name": "epidemic", "fanout": 3}}, "overlay: overlay.degree: no graph over 9 learners"),
        (
            9,
            {"algorithm": {"name": "epidemic", "fanout": 2}, "overlay": {"degree": 4}},
            "overlay: overlay.degree: `fanout`",
        ),
        (
            9,
            {"algorithm": {"name": "divshare", "recipients": 2}, "overlay": {"degree": 4}},
            "overlay: overlay.degree: `recipients`",
        ),
        (4, {"algorithm": {"name": "divshare", "recipients": 4}}, "overlay: overlay.degree: a degree of 4 needs more"),
        (4, {"compute": {"factors": [{"nodes": "b", "factor": 2}]}}, "unknown-node: compute.factors.nodes: `b`"),
        (4, {"overlay": "nomodule:here"}, "code: overlay.kind: there is no module"),
    ],
)
def test_what_does_not_fit(count: int, sections: dict[str, Any], told: str) -> None:
    (found,) = problems(count, **sections)
    assert found.startswith(told)


def test_several_wrong_names_are_all_told_with_suggestions() -> None:
    found = problems(
        4,
        algorithm={"name": "fedavg", "server": "a.9"},
        compute={"factors": [{"nodes": ["a", "aa"], "factor": 2}, {"nodes": "x.*", "factor": 1}]},
    )
    assert len(found) == 3
    assert any(each.endswith("there is no node `a.9` / did you mean `a.3`?") for each in found)


def test_mistakes_are_told_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("topology: t\noverlay:\n  kind: regular\n  degree: 9\n")
    read = load_experiment(path)
    with pytest.raises(InvalidInput) as caught:
        make_plan(read.require(), nodes(4), run_id="r", source=read.origin)
    assert caught.value.file == str(path)
    assert tuple(caught.value.findings[0].where) == (4, 11)


def test_paces() -> None:
    topology = load_bytes(
        b"services: {a: {replicas: 4}, b: {replicas: 4, speed: 0.5}}\nbridges: [s]\n"
        b"links: [{from: a, to: s, latency: 1ms, rate: 1Mbps}, {from: b, to: s, latency: 1ms, rate: 1Mbps}]\n",
        Form.YAML,
        "t.yaml",
    ).require()
    plan = plan_of(
        topology,
        compute={
            "ms_per_step": 20,
            "factors": [
                {"nodes": "*", "factor": 3},
                {"nodes": ["a.1", "b.1"], "between": [2, 4]},
                {"nodes": "a.2", "trace": [[10, 5], [20, 1]]},
            ],
        },
    )
    paces = [node.pace for node in plan.nodes]
    assert plan.ms_per_step == 20
    assert paces[0] == ((0.0, 3.0),)
    assert paces[2] == ((0.0, 1.0), (10.0, 5.0), (20.0, 1.0))
    assert paces[4] == ((0.0, 6.0),)
    assert 2 <= paces[1][0][1] <= 4 <= paces[5][0][1] <= 8
    assert paces[1][0][1] * 2 != paces[5][0][1]


def test_a_share_of_the_nodes_is_drawn_from_the_seed() -> None:
    def slow(seed: int) -> list[int]:
        plan = plan_of(20, seed=seed, compute={"factors": {"share": 0.3, "factor": 5}})
        return [node.rank for node in plan.nodes if node.pace == ((0.0, 5.0),)]

    assert len(slow(1)) == 6
    assert slow(1) == slow(1)
    assert len({tuple(slow(seed)) for seed in range(8)}) > 4


def test_the_nominal_cost_is_used_only_when_nothing_is_said() -> None:
    automatic = Experiment(topology="t")
    told = Experiment.model_validate({"topology": "t", "compute": {"ms_per_step": "7.5"}})
    assert make_plan(automatic, nodes(2), run_id="r", nominal_ms_per_step=3.0).ms_per_step == 3.0
    assert make_plan(told, nodes(2), run_id="r", nominal_ms_per_step=3.0).ms_per_step == 7.5


LEAVES = "events: [{at: 1s, node: a.1, do: leave}]\n"
NEVER_WAITS = {"name": "epidemic", "mode": "local", "round_end": "timeout"}


@pytest.mark.parametrize(
    ("algorithm", "more", "said", "then"),
    [
        ({"name": "dpsgd"}, "", {}, "wait"),
        ({"name": "dpsgd"}, LEAVES, {}, "skip"),
        ({"name": "dpsgd"}, LEAVES, {"missing": {"then": "wait"}}, "wait"),
        ({"name": "epidemic"}, "", {}, "wait"),
        (NEVER_WAITS, "", {}, "skip"),
        (NEVER_WAITS, "", {"missing": {"then": "wait"}}, "wait"),
        ({"name": "parameter-server", "mode": "async"}, "", {}, "wait"),
        ({"name": "mine.py:Mine"}, "", {}, "wait"),
    ],
)
def test_who_waits_for_others_waits_on_by_default(
    algorithm: dict[str, Any], more: str, said: dict[str, Any], then: str
) -> None:
    assert plan_of(nodes(4, more), algorithm=algorithm, **said).experiment.missing.then == then


def test_an_overlay_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "edges").write_text("4\n0 1  # ranks\na.1, a.2\n3: 2 0\n")
    (tmp_path / "x.yaml").write_text("topology: t\noverlay: {file: edges}\n")
    read = load_experiment(tmp_path / "x.yaml")
    plan = make_plan(read.require(), nodes(4), run_id="r", source=read.origin)
    assert plan.overlay.neighbours == ((1, 3), (0, 2), (1, 3), (0, 2))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("0 1\n2 3\n", "falls into 2 parts"),
        ("0 4\n", "edges:1: there is no node `4`"),
        ("0 1\n\n1 a.7\n", "edges:3: there is no node `a.7`"),
        ("0 ²\n", "edges:1: there is no node `²`"),
        ("²\n0 1\n", "edges:1: there is no node `²`"),
        (f"0 {'9' * 5000}\n", "edges:1: there is no node `999"),
        ("0 0\n", "edges:1: an edge from a node to itself"),
        ("9\n0 1\n", "edges:1: it is for 9 nodes, here are 4"),
    ],
)
def test_a_bad_file_of_edges(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "edges").write_text(text)
    (tmp_path / "x.yaml").write_text("topology: t\noverlay: {file: edges}\n")
    read = load_experiment(tmp_path / "x.yaml")
    with pytest.raises(InvalidInput) as caught:
        make_plan(read.require(), nodes(4), run_id="r", source=read.origin)
    assert told in caught.value.findings[0].message


def test_the_networks_own_links() -> None:
    text = (
        "services: {a: {replicas: 3}, b: {replicas: 2}, c: , d: }\nbridges: [s, t]\n"
        "defaults: {latency: 1ms, rate: 1Mbps}\n"
        "links:\n  - {from: a, to: s}\n  - {from: b, to: t, shared: true}\n  - {from: s, to: t}\n"
        "  - {from: a.0, to: b.0}\n  - {from: c, to: b.1}\n  - {from: d, to: c}\n"
    )
    plan = plan_of(load_bytes(text.encode(), Form.YAML, "t.yaml").require(), overlay="network")
    # a.0 a.1 a.2 b.0 b.1 c d: the switch s joins a's nodes, the shared access link joins b's
    assert plan.overlay.neighbours == ((1, 2, 3), (0, 2), (0, 1), (0, 4), (3, 5), (4, 6), (5,))


def test_addresses_are_all_different_and_never_a_networks_or_broadcast() -> None:
    found = [address(rank) for rank in range(MAX_NODES)]
    assert len(set(found)) == MAX_NODES <= MOST_ADDRESSES
    assert found[0] == "198.18.0.1"
    assert (found[253], found[254]) == ("198.18.0.254", "198.18.1.1")
    assert Counter(text.rsplit(".", 1)[1] for text in found).keys().isdisjoint({"0", "255"})
    assert all(text.startswith(("198.18.", "198.19.")) for text in found)
    assert address(MOST_ADDRESSES - 1) == "198.19.255.254"
    with pytest.raises(ValueError, match="130048"):
        address(MOST_ADDRESSES)


@pytest.mark.parametrize("bundled", BUNDLED, ids=lambda each: each.name)
def test_every_bundled_topology_can_be_planned(bundled: Any) -> None:
    topology = load(bundled.path).require()
    plan = plan_of(topology)
    assert plan.load_topology() == topology
    assert RunPlan.model_validate(plan.document()) == plan


def test_the_same_inputs_make_the_same_plan() -> None:
    path = find_bundled("wan64")
    assert path is not None
    topology = load(path).require()
    assert plan_of(topology) == plan_of(load(path).require())
    assert plan_of(topology, seed=2).overlay.neighbours != plan_of(topology).overlay.neighbours


def test_a_sharing_that_remembers_its_neighbours_wants_the_same_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan_of(6, overlay={"dynamic": True}).overlay.dynamic
    public = replace(SHARINGS["full"], same_neighbours=True)
    monkeypatch.setattr("testbed.plan.overlay.SHARINGS", {"full": public})
    assert plan_of(6).overlay.neighbours is not None
    assert plan_of(6, algorithm="fedavg").overlay.neighbours is not None
    told = (
        "overlay: overlay.dynamic: full remembers what its neighbours have, and here they are others in every round"
        " / choose an overlay that stays the same, or another sharing"
    )
    assert problems(6, overlay={"dynamic": True}) == [told]
    assert problems(6, algorithm="epidemic") == [told]
