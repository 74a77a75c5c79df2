"""The journals and the outcome of a run whose code failed before any node could start.

Takes the plan, the run directory and the failure, gives an `Outcome`; writes journals: the first node failed, the
others were stopped.
"""

from __future__ import annotations

from testbed.control.log import ControlLog
from testbed.control.outcome import NodeFailure, Outcome
from testbed.journal import Journal
from testbed.node.life import Reason, build_of_this_process
from testbed.plan.model import PlannedNode, RunPlan
from testbed.records import SCHEMA, Build, Count, End, Event, Failure, Over, Start
from testbed.rundir import RunDirectory


def failed_start(plan: RunPlan, directory: RunDirectory, failure: Failure) -> Outcome:
    """Writes complete journals and the log of control."""
    build = build_of_this_process()
    first = plan.nodes[0]
    for node in plan.nodes:
        journal = Journal(directory.node(node.name).journal)
        journal.write(_start(plan, node, build))
        reason = Reason.FAILED if node is first else Reason.STOPPED
        journal.write(End(0.0, reason.value, 0, 0, Count(), Count(), failure if node is first else None))
        journal.close()
    log = ControlLog(directory.events)
    log.write(Event(0.0, "failed", failure.message, node=first.name))
    log.write(Over(0.0, "failed", finished=0, failed=1))
    log.close()
    return Outcome("failed", 0.0, 0, (NodeFailure(first.name, failure),))


def _start(plan: RunPlan, node: PlannedNode, build: Build) -> Start:
    samples = 0 if plan.samples is None or node.learner is None else plan.samples[node.learner]
    return Start(
        t=0.0,
        schema=SCHEMA,
        node=node.name,
        rank=node.rank,
        roles=node.roles,
        learner=node.learner,
        samples=samples,
        parameters=plan.parameters or 0,
        algorithm=plan.experiment.algorithm.name,
        seed=plan.seed,
        build=build,
    )
