"""Small files and what a target says of them."""

from __future__ import annotations

from testbed.errors import Finding
from testbed.network.findings import path_findings
from testbed.network.graph import expand
from testbed.targets import Target
from testbed.targets.rules import judge
from testbed.topologies.load import Loaded, load_bytes
from testbed.topologies.model import Topology
from testbed.topologies.source import Form

XML = """\
<experiment boot="kollaps:2.0">
  <config><topology name="t" pool_period="0.1" max_age="3"/></config>
  <services>
    <service name="dashboard" image="d:1" supervisor="true" port="8088"/>
    <service name="a" image="i:1" command="['serve','--port=1']" activepaths="['b']"/>
    <service name="b" image="i:1"/>
  </services>
  <bridges><bridge name="x"/><bridge name="y_1"/></bridges>
  <links>
    <link origin="a" dest="x" latency="1" upload="10Mbps" download="5Mbps" network="n"/>
    <link origin="x" dest="y_1" latency="5" upload="1500Kbps" download="1500Kbps" drop="0.01" network="n"/>
    <link origin="y_1" dest="b" latency="0" upload="10Mbps" download="10Mbps" network="n"/>
  </links>
</experiment>
"""
"""Kollaps runs it as it stands."""

XML_EVENTS = """\
<experiment boot="kollaps:2.0">
  <services>
    <service name="dashboard" image="d:1" supervisor="true" port="8088"/>
    <service name="a" image="i:1"/>
    <service name="b" image="i:1"/>
  </services>
  <bridges><bridge name="x"/></bridges>
  <links>
    <link origin="a" dest="x" latency="1" upload="10Mbps" download="10Mbps" network="n"/>
    <link origin="x" dest="b" latency="1" upload="10Mbps" download="10Mbps" network="n"/>
  </links>
  <dynamic>
    <schedule name="a" time="0" action="join"/>
    <schedule name="b" time="3" action="join" amount="2"/>
    <schedule origin="a" dest="x" time="10" latency="2" upload="9Mbps" download="9Mbps"/>
    <schedule origin="a" dest="x" time="11" action="leave"/>
    <schedule origin="a" dest="x" time="11.5" action="join"/>
    <schedule name="x" time="13" action="leave"/>
    <schedule name="x" time="14" action="join"/>
    <schedule name="b" time="20" action="disconnect" amount="2"/>
    <schedule name="b" time="21" action="reconnect"/>
    <schedule name="a" time="30" action="crash"/>
  </dynamic>
</experiment>
"""
"""Kollaps runs it as it stands."""

YAML = """\
services:
  dashboard: {image: d, supervisor: true, port: 8088}
  a: {replicas: 2}
  b: {}
bridges: [x]
links:
  - {from: a, to: x, latency: 1ms, rate: 10Mbps}
  - {from: x, to: b, latency: 1ms, rate: 10Mbps}
"""
"""Every target runs it as it stands."""


def loaded(text: str) -> Loaded:
    """The text as a file of the form that it looks like."""
    form = Form.XML if "<experiment" in text else Form.YAML
    return load_bytes(text.encode(), form, f"t.{form}")


def judged_topology(topology: Topology, target: Target, findings: tuple[Finding, ...] = ()) -> list[Finding]:
    network = expand(topology)
    return judge(target, topology, [*findings, *path_findings(topology, network)], network)


def judged(text: str, target: Target = Target.KOLLAPS) -> list[Finding]:
    file = loaded(text)
    return judged_topology(file.require(), target, file.findings)


def changed(base: str, *changes: tuple[str, str]) -> str:
    """The base with each old text, which must be there once, replaced."""
    for old, new in changes:
        assert base.count(old) == 1, f"{old!r} is {base.count(old)} times in the base"
        base = base.replace(old, new)
    return base


def only(findings: list[Finding], code: str) -> list[Finding]:
    return [finding for finding in findings if finding.code == code]
