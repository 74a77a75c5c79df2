"""Topologies as the files of a plan, rendered for Kollaps."""

from __future__ import annotations

from pathlib import Path

from testbed.errors import Finding, InvalidInput, Severity
from testbed.experiment.read import experiment_on
from testbed.manifests import Manifest
from testbed.manifests.kollaps.render import Orchestrator, render
from testbed.plan.make import make_plan
from testbed.plan.model import RunPlan
from testbed.topologies.load import load, load_bytes
from testbed.topologies.model import Topology
from testbed.topologies.source import Form

UUID = "00000000-1111-4222-8333-444444444444"


def plan_of(topology: Topology, run_id: str = "r") -> RunPlan:
    experiment = experiment_on("t.yaml", ()).require()
    return make_plan(experiment, topology, run_id=run_id, runtime="kollaps", engine="kollaps")


def rendered(topology: Topology, orchestrator: Orchestrator = Orchestrator.SWARM) -> Manifest:
    return render(
        plan_of(topology), orchestrator, folder="/experiment", topology=topology, file="t", machines=1, uuid=UUID
    )


def topology_of(source: str | Path) -> Topology:
    if isinstance(source, Path):
        return load(source).require()
    form = Form.XML if source.lstrip().startswith("<") else Form.YAML
    return load_bytes(source.encode(), form, f"t.{form}").require()


def xml_of(source: str | Path) -> str:
    return rendered(topology_of(source)).files["topology.xml"]


def said(source: str | Path) -> set[str]:
    """The codes of what was rewritten."""
    return {each.code for each in rendered(topology_of(source)).said if each.severity is Severity.NOTE}


def refusals(source: str | Path, orchestrator: Orchestrator = Orchestrator.SWARM) -> list[Finding]:
    try:
        rendered(topology_of(source), orchestrator)
    except InvalidInput as problem:
        return [each for each in problem.findings if each.severity is Severity.ERROR]
    return []
