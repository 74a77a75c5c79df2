"""Nothing is lost between the forms: load(write(topology)) is the same model."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings

from testbed.errors import InvalidInput
from testbed.topologies.load import load, load_bytes
from testbed.topologies.model import Topology
from testbed.topologies.source import Form
from testbed.topologies.write import write_text
from tests.examples import examples
from tests.reference import needs_reference, reference_files
from tests.topologies.documents import documents


def loaded(text: str, form: Form = Form.YAML) -> Topology | None:
    return load_bytes(text.encode(), form, f"t.{form}").topology


def reloaded(topology: Topology, form: Form) -> Topology:
    text = write_text(topology, form)
    again = load_bytes(text.encode(), form, f"other.{form}")
    assert again.topology is not None, (text, again.findings)
    return again.topology


SEEN: Counter[str] = Counter()


@settings(max_examples=examples(100), deadline=None)
@given(documents())
def test_yaml_says_everything(document: dict[str, Any]) -> None:
    topology = loaded(yaml.safe_dump(document))
    SEEN["valid" if topology else "invalid"] += 1
    if topology is not None:
        assert reloaded(topology, Form.YAML) == topology


@settings(max_examples=examples(100), deadline=None)
@given(documents(kollaps=True))
def test_xml_says_it_or_refuses_with_a_reason(document: dict[str, Any]) -> None:
    topology = loaded(yaml.safe_dump(document))
    if topology is None:
        SEEN["xml invalid"] += 1
        return
    try:
        again = reloaded(topology, Form.XML)
    except InvalidInput as refused:
        SEEN["refused"] += 1
        assert {finding.code for finding in refused.findings} == {"xml-cannot-say"}
        assert all(finding.message and finding.hint for finding in refused.findings)
        return
    SEEN["said"] += 1
    assert again == topology
    assert reloaded(again, Form.YAML) == topology


def test_the_property_tests_saw_enough_valid_documents() -> None:
    """A generator that makes only refused documents would let everything pass."""
    if not SEEN:
        pytest.skip("the property tests ran in another process")
    if SEEN["valid"] + SEEN["invalid"]:
        assert SEEN["valid"] > SEEN["invalid"] / 2
    if SEEN["said"] + SEEN["refused"]:
        assert SEEN["said"] > 30


@needs_reference
@pytest.mark.parametrize("path", reference_files(), ids=lambda path: path.stem)
@pytest.mark.parametrize("form", Form)
def test_real_kollaps_files_survive(path: Path, form: Form) -> None:
    topology = load(path).require()
    assert reloaded(topology, form) == topology


@pytest.mark.parametrize(
    ("yaml_text", "reason"),
    [
        ("services: {a: {cpus: 1}, b: }\nlinks: [{from: a, to: b, latency: 1ms, rate: 1Mbps}]", "device"),
        ("services: {a: , b: }\nlinks: [{from: a, to: b, latency: 1ms, rate: unlimited}]", "unlimited"),
        ("services: {a: , b: }\nlinks: [{from: a, to: b, latency: 1ms, rate: 1Mbps, queue: 1ms}]", "queue"),
        ("services: {a: , b: }\nlinks: [{from: a, to: b, latency: 1ms, rate: 1Mbps, background: 1kbps}]", "background"),
        (
            "services: {a: {replicas: 2}, b: }\nlinks: [{from: a.0, to: b, latency: 1ms, rate: 1Mbps}]",
            "single replicas",
        ),
        (
            "services: {a: {replicas: 2}, b: , c: }\n"
            "links: [{from: a, to: b, latency: 1ms, rate: 1Mbps, shared: true}, "
            "{from: a, to: c, latency: 1ms, rate: 1Mbps}]",
            "shares one link and not another",
        ),
        ("services: {a: {replicas: 2}}\nevents: [{at: 1s, node: a.0, do: crash}]", "which replicas"),
        ("services: {a: }\nevents: [{at: 1s, node: a, do: pause}]", "pause"),
        ("services: {a: }\nevents: [{at: 1s, node: a, do: crash, rejoin: 2s}]", "how long"),
        ("services: {a: }\nevents: [{every: 1s, until: 5s, node: a, do: disconnect, for: 0.5s}]", "repeats"),
        ("services: {a: , b: }\nevents: [{at: 1s, partition: [a, b]}]", "a partition"),
        ("services: {a: {replicas: 3}}\nevents: [{at: 1s, node: a, do: join, count: 2}]", "counts its joins"),
    ],
)
def test_what_xml_cannot_say_is_refused_with_the_reason(yaml_text: str, reason: str) -> None:
    topology = loaded(yaml_text)
    assert topology is not None
    with pytest.raises(InvalidInput) as refused:
        write_text(topology, Form.XML)
    assert any(reason in finding.message for finding in refused.value.findings), refused.value.findings
