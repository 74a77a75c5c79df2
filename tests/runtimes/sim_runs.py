"""Runs in virtual time for tests: small, on data that needs no download."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from testbed.control.outcome import Outcome
from testbed.experiment.language import Experiment
from testbed.plan.files import write_plan
from testbed.plan.make import make_plan
from testbed.plan.model import RunPlan
from testbed.records import AnyRecord
from testbed.rundir import RunDirectory, create_run
from testbed.runtimes.sim.prepare import prepared
from testbed.runtimes.sim.run import SimRun
from testbed.topologies.load import load_bytes
from testbed.topologies.model import Topology
from testbed.topologies.source import Form

DECODER = msgspec.json.Decoder(AnyRecord)

STAR = """
services:
  node: {{replicas: {nodes}}}
bridges: [hub]
links:
  - {{from: node, to: hub, latency: 5ms, rate: {rate}}}
"""


def star(nodes: int, events: str = "", rate: str = "20Mbps") -> str:
    return STAR.format(nodes=nodes, rate=rate) + (f"events:\n{events}" if events else "")


def plan_of(topology: str | Topology, **settings: Any) -> RunPlan:
    """The plan of an experiment on digits; `topology` may be YAML."""
    experiment = Experiment.model_validate(
        {
            "topology": "test.yaml",
            "data": {"name": "digits"},
            "stop": {"rounds": 4},
            "evaluation": {"every": 2, "samples": 100},
            "training": {"lr": 0.1, "batch": 8, "steps": 2},
            **settings,
        }
    )
    if isinstance(topology, str):
        topology = load_bytes(topology.encode(), Form.YAML, "test.yaml").require()
    return make_plan(experiment, topology, run_id="test", runtime="sim", nominal_ms_per_step=20.0)


def run(plan: RunPlan, folder: Path, *, workers: int = 0, shuffle: int | None = None) -> tuple[RunDirectory, Outcome]:
    directory = create_run(folder, "run")
    write_plan(directory, plan)
    with prepared(plan, workers=workers) as shared:
        return directory, SimRun(plan, directory, shared, shuffle=shuffle).run()


def texts(directory: RunDirectory) -> dict[str, bytes]:
    """Everything that was journalled, by file."""
    files = [directory.events, *(directory.node(name).journal for name in directory.node_names())]
    return {str(path.relative_to(directory.path)): path.read_bytes() for path in files}


def records(directory: RunDirectory, node: str | None) -> list[AnyRecord]:
    """A node's journal, or control's log."""
    path = directory.events if node is None else directory.node(node).journal
    return [DECODER.decode(text) for text in path.read_bytes().splitlines()]
