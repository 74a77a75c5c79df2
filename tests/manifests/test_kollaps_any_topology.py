"""Whatever a topology holds: it is refused with codes, or both parsers of Kollaps read one and the same network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given, settings

from testbed.errors import InvalidInput, Severity
from testbed.manifests.kollaps.rewrite import rewritten
from testbed.network.findings import path_findings
from testbed.network.graph import expand
from testbed.targets import Target
from testbed.targets.rules import judge
from testbed.topologies.load import load_bytes
from testbed.topologies.source import Form
from testbed.topologies.write_xml import to_xml
from tests.examples import examples
from tests.manifests.kollaps_parsers import python_links, rust_links
from tests.topologies import documents as language
from tests.topologies.documents import documents


@pytest.fixture(scope="module", autouse=True)
def _plain_names() -> Iterator[None]:
    """Others are refused, and with them nearly all topologies."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(language, "SERVICES", ["a", "b-1", "c", "d"])
        patch.setattr(language, "BRIDGES", ["r1", "r2", "r3"])
        yield


def plain(document: dict[str, Any]) -> dict[str, Any]:
    """Without what is always refused."""
    for service in document["services"].values():
        if service:
            service.pop("command", None)
            service.pop("active-paths", None)
    for link in document.get("links", []):
        for key in ("queue", "background"):
            link.pop(key, None)
        for key in ("rate", "up", "down"):
            if link.get(key) in ("unlimited", "1234567bps"):
                link[key] = "2Mbps"
        if link.get("back", {}).keys() - {"rate"}:
            del link["back"]
    return document


def test_refused_or_read_alike() -> None:
    rendered: list[int] = []

    @settings(max_examples=examples(100), deadline=None)
    @given(documents().map(plain))
    def each(document: dict[str, Any]) -> None:
        rendered.append(refused_or_read_alike(document))

    each()
    assert sum(rendered) > 10, "nearly all are refused: the topologies prove little"


def refused_or_read_alike(document: dict[str, Any]) -> bool:
    topology = load_bytes(yaml.safe_dump(document, sort_keys=False).encode(), Form.YAML, "f.yaml").topology
    if topology is None:
        return False
    try:
        kollaps, _said = rewritten(topology, "f.yaml", lower_case=False)
    except InvalidInput as problem:
        assert any(each.severity is Severity.ERROR for each in problem.findings)
        return False
    assert [node.name for node in kollaps.nodes] == [node.name for node in topology.nodes]
    text = to_xml(kollaps)
    assert python_links(text) == rust_links(text)
    again = load_bytes(text.encode(), Form.XML, "f.xml").require()
    assert again == kollaps
    network = expand(again)
    findings = judge(Target.KOLLAPS, again, path_findings(again, network), network)
    assert [each for each in findings if each.severity is Severity.ERROR] == []
    return True
