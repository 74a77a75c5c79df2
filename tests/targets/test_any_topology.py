"""Whatever a topology holds, every target has an answer; and Kollaps' is the same for both forms of a file."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given, settings

from testbed.errors import Finding, InvalidInput, Severity
from testbed.network.graph import expand
from testbed.targets import Target
from testbed.targets.rules import judge
from testbed.topologies.load import load_bytes
from testbed.topologies.model import Topology
from testbed.topologies.source import Form
from testbed.topologies.write_xml import to_xml
from tests.examples import examples
from tests.targets.judging import judged_topology
from tests.topologies.documents import documents

DASHBOARD = {"dashboard": {"image": "d", "supervisor": "true", "port": "8088"}}


def loaded(document: dict[str, Any]) -> Topology | None:
    document = document | {"services": DASHBOARD | document["services"]}
    return load_bytes(yaml.safe_dump(document, sort_keys=False).encode(), Form.YAML, "f.yaml").topology


def error_codes(findings: list[Finding]) -> set[str]:
    """A link whose directions differ becomes two one-way links in XML."""
    codes = {finding.code for finding in findings if finding.severity is Severity.ERROR}
    return {code.replace("asymmetric", "one-way") for code in codes}


@settings(max_examples=examples(50), deadline=None)
@given(documents())
def test_every_target_judges_every_topology(document: dict[str, Any]) -> None:
    topology = loaded(document)
    for target in Target if topology is not None else ():
        assert topology is not None
        found = judged_topology(topology, target)
        assert found == judged_topology(topology, target)
        assert len(set(found)) == len(found)
        assert [each.where for each in found] == sorted(each.where for each in found)
        own = [each for each in found if each.code.startswith(f"{target}-")]
        assert all(each.message and each.hint for each in own)


@settings(max_examples=examples(50), deadline=None)
@given(documents(kollaps=True))
def test_the_same_topology_has_the_same_errors_in_both_forms(document: dict[str, Any]) -> None:
    topology = loaded(document)
    try:
        text = to_xml(topology) if topology is not None else ""
    except InvalidInput:
        return
    if topology is not None:
        again = load_bytes(text.encode(), Form.XML, "f.xml")
        network = expand(again.require())
        in_xml = judge(Target.KOLLAPS, again.require(), again.findings, network)
        in_yaml = judge(Target.KOLLAPS, topology, (), network)
        assert error_codes(in_xml) == error_codes(in_yaml)
