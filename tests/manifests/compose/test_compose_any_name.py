"""Whatever services are called: Compose takes the file, and every container is the one it should be."""

from __future__ import annotations

import re
from string import Template
from typing import Any

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from testbed.manifests.compose.names import project_name
from testbed.manifests.compose.variables import GROUP, USER, dump, filled
from testbed.topologies.language import Problem, check_name
from tests.examples import examples
from tests.manifests.compose.composing import (
    HOSTILE,
    PARTS,
    learners_in,
    mounts,
    plan_of,
    rendered,
    services_of,
    star,
    topology_of,
)

KEY = re.compile(r"[a-zA-Z0-9._-]+")
HOST = re.compile(r"(?=.{1,63}\Z)[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")


def is_a_name(text: str) -> bool:
    try:
        check_name(text)
    except Problem:
        return False
    return text != "r"  # the bridge


wild = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), min_size=1, max_size=100)
nasty = st.text("ab.-_ :${}'\"#&<é", min_size=1, max_size=12)
names = st.one_of(nasty, wild, st.sampled_from(HOSTILE)).filter(is_a_name)


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(names, min_size=1, max_size=5, unique=True), st.integers(1, 3))
@example(["a b", "a-b", "a--b", "a-b.0-r0"], 2)
@example(["x" * 100, "x" * 99 + "y", "ü" * 100], 2)
def test_any_names(services: list[str], replicas: int) -> None:
    source = star({name: {"replicas": replicas} for name in services})
    made = services_of(rendered(source))
    learners = learners_in(made)
    wanted = [node.name for node in topology_of(source).nodes]
    assert [service["labels"]["testbed.node"] for service in learners.values()] == wanted
    assert [service["labels"]["testbed.rank"] for service in learners.values()] == [str(n) for n in range(len(wanted))]
    assert len(made) == len(PARTS) + len(services) * replicas, "no two have one key"
    assert all(KEY.fullmatch(key) for key in made)
    hosts = [service["hostname"] for service in learners.values()]
    assert all(HOST.fullmatch(host) for host in hosts), hosts
    assert len(set(hosts)) == len(hosts)
    every = [mount for service in learners.values() for mount in mounts(service)]
    assert all(len(mount) == 2 + (mount[1] in READ_ONLY) for mount in every)
    own = [source for source, target, *_ in every if target in ("/testbed/sockets", "/testbed/node")]
    assert len(set(own)) == len(own), "no nodes share a folder"
    assert_names_are_kept(learners)


READ_ONLY = ("/testbed/node/plan.json", "/testbed/data", "/testbed/slots")


def assert_names_are_kept(learners: dict[str, dict[str, Any]]) -> None:
    """Where they can be."""
    for key, service in learners.items():
        name = service["labels"]["testbed.node"]
        if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            assert key == name
        (folder,) = (mount[0] for mount in mounts(service) if mount[1] == "/testbed/node")
        assert folder in (f"./results/r/nodes/{name}", f"./results/r/runtime/nodes/{service['labels']['testbed.rank']}")
        assert folder.startswith("./results/r/nodes/") == (not set(name) & set("$:{}"))


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", fullmatch=True))
def test_any_run_has_a_project_of_its_own(run_id: str) -> None:
    name = project_name(run_id)
    assert re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name)
    assert name != project_name(run_id + "x")
    assert run_id == run_id.lower() or name != project_name(run_id.lower())
    assert run_id == run_id.replace(".", "-") or name != project_name(run_id.replace(".", "-"))


@given(wild)
@example("$HOME $$ ${HOME:-}}")
def test_texts_around_variables_stay_what_they_are(text: str) -> None:
    written = yaml.safe_load(dump(filled(text, USER, ":", GROUP)))
    assert Template(written.replace("${TESTBED_UID:-1000}", "1").replace("${TESTBED_GID:-1000}", "2")).substitute() == (
        f"{text}1:2"
    )


def test_hostile_names_are_names() -> None:
    """Or they would prove nothing."""
    assert all(is_a_name(name) for name in HOSTILE)
    assert len(plan_of(topology_of(star({name: {} for name in HOSTILE}))).nodes) == len(HOSTILE)
