"""The JSON Schema and the reader agree about what is a topology."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from testbed.cli.main import main
from testbed.topologies.bundled import BUNDLED
from testbed.topologies.language import json_schema
from testbed.topologies.load import load_bytes
from testbed.topologies.source import Form
from testbed.topologies.write_yaml import to_yaml
from tests.examples import examples
from tests.topologies.documents import documents

VALIDATOR = Draft202012Validator(json_schema())


def accepts(document: object) -> bool:
    return VALIDATOR.is_valid(document)


def test_it_is_a_schema_and_printed_as_one() -> None:
    Draft202012Validator.check_schema(json_schema())
    printed = CliRunner().invoke(main, ["schema"])
    assert json.loads(printed.stdout) == json_schema()


@settings(max_examples=examples(150), deadline=None)
@given(documents())
def test_what_loads_fits_the_schema(document: dict[str, Any]) -> None:
    topology = load_bytes(yaml.safe_dump(document).encode(), Form.YAML, "t.yaml").topology
    assert accepts(document)
    if topology is not None:
        assert accepts(yaml.safe_load(to_yaml(topology)))


@pytest.mark.parametrize("bundled", BUNDLED, ids=lambda each: each.name)
def test_every_bundled_topology_fits_the_schema_as_yaml(bundled: Any) -> None:
    topology = load_bytes(bundled.path.read_bytes(), Form(bundled.form), bundled.file_name).require()
    assert accepts(yaml.safe_load(to_yaml(topology)))


@pytest.mark.parametrize(
    "text",
    [
        "links: []",
        "services: {a: {replicas: 0}}",
        "services: {a: {replcas: 1}}",
        "services: {a: {speed: -1}}",
        "services: {a: }\nlinks: [{from: a}]",
        "services: {a: }\nlinks: [{from: a, to: b, latency: 5}]",
        "services: {a: }\nlinks: [{from: a, to: b, latency: 5, rate: 10mbps}]",
        "services: {a: }\nevents: [{at: 5s, node: a, do: explode}]",
        "services: {a: }\nevents: [{at: 5s, state: up}]",
        "services: {a: }\nrouting: fastest",
    ],
)
def test_what_the_reader_refuses_the_schema_refuses(text: str) -> None:
    assert not accepts(yaml.safe_load(text))
    assert load_bytes(text.encode(), Form.YAML, "t.yaml").topology is None
