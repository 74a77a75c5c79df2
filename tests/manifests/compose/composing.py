"""Runs rendered for Compose, and the files read as Compose reads them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from testbed.experiment.read import experiment_on, setting
from testbed.manifests import Manifest
from testbed.manifests.compose.render import COMPOSE_FILE, render
from testbed.plan.make import make_plan
from testbed.plan.model import RunPlan
from testbed.topologies.bundled import find_bundled
from testbed.topologies.load import load, load_bytes
from testbed.topologies.model import Topology
from testbed.topologies.source import Form

PARTS = ("prepare", "control", "fabric")
HOSTILE = (
    "yes",
    "012",
    "a: b",
    "$HOME",
    "${HOME}",
    "$$",
    "x}}:..:rw",
    "${TESTBED_UID:-}}",
    "ünï",
    "#c",
    "q\"x'",
    "&a",
    "<<",
    "{{ name }}",
    "x" * 100,
    "ü" * 100,
    "_u",
    "a b",
    "a-b",
    "control",
)
_NEW = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<name>[A-Za-z_]\w*):-(?P<default>[^}]*)\})")
_OLD = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<name>[A-Za-z_]\w*):-(?P<default>.*\}|[^}]*)\})")
"""Compose 1.29 lets a default reach to the last `}}` of the text."""


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def plan_of(topology: Topology, *settings: str, run_id: str = "r", parameters: int | None = None) -> RunPlan:
    experiment = experiment_on("t.yaml", map(setting, settings)).require()
    return make_plan(experiment, topology, run_id=run_id, runtime="docker", engine="fabric", parameters=parameters)


def topology_of(source: str) -> Topology:
    """Of a text in YAML, or a bundled one by name."""
    if (path := find_bundled(source)) is not None:
        return load(Path(path)).require()
    return load_bytes(source.encode(), Form.YAML, "t.yaml").require()


def star(services: dict[str, dict[str, Any]], **more: Any) -> str:
    """Services around one bridge."""
    links = [{"from": name, "to": "r", "latency": "1ms", "rate": "10Mbps"} for name in services]
    return yaml.safe_dump(
        {"services": services, "bridges": ["r"], "links": links, **more}, sort_keys=False, allow_unicode=True
    )


def hostile() -> str:
    """Two nodes each, so that ranks and replicas are not the same; they differ in what they are, and two come back."""
    services: dict[str, dict[str, Any]] = {name: {"replicas": 2} for name in HOSTILE}
    services["$HOME"] |= {"cpus": 0.5, "memory": "4GB"}
    return star(services, events=[{"at": "5s", "node": "a: b", "do": "crash", "rejoin": "5s"}])


def rendered(
    source: str, *settings: str, words: Sequence[str] | None = None, parameters: int | None = None
) -> Manifest:
    topology = topology_of(source)
    return render(plan_of(topology, *settings, parameters=parameters), words=words, topology=topology, file="t.yaml")


def document_of(manifest: Manifest) -> dict[str, Any]:
    read: dict[str, Any] = yaml.load(manifest.files[COMPOSE_FILE], Loader=_LOADER)  # noqa: S506 - a safe one
    return read


def services_of(manifest: Manifest, **environment: str) -> dict[str, dict[str, Any]]:
    """With variables filled in, as every Compose does it."""
    services = document_of(manifest)["services"]
    new, old = (_filled(services, pattern, environment) for pattern in (_NEW, _OLD))
    assert new == old, "an old Compose would read something else"
    assert isinstance(new, dict)
    return new


def learners_in(services: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {key: service for key, service in services.items() if key not in PARTS}


def mounts(service: dict[str, Any]) -> list[tuple[str, ...]]:
    """Source, target and mode of each."""
    return [tuple(each.split(":")) for each in service["volumes"]]


def _filled(value: Any, pattern: re.Pattern[str], environment: dict[str, str]) -> Any:
    match value:
        case str():
            return _text(value, pattern, environment)
        case dict():
            return {key: _filled(each, pattern, environment) for key, each in value.items()}
        case list():
            return [_filled(each, pattern, environment) for each in value]
    return value


def _text(text: str, pattern: re.Pattern[str], environment: dict[str, str]) -> str:
    def one(found: re.Match[str]) -> str:
        return "$" if found["dollar"] else environment.get(found["name"]) or found["default"]

    rest = pattern.sub("", text)
    assert "$" not in rest, f"Compose takes {text!r} for a mistake"
    return pattern.sub(one, text)
