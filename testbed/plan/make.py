"""An experiment and a topology → a `RunPlan`.

Pure, but for an overlay's own code, which is called. All inconsistencies are reported at once, at their places in the
experiment.
"""

from __future__ import annotations

from collections.abc import Mapping

from testbed.catalogue.algorithms import ALGORITHMS, exchange_of
from testbed.catalogue.exchanges import WithPeers
from testbed.experiment.language import Compute, Experiment
from testbed.experiment.origin import Origin
from testbed.plan.addresses import address
from testbed.plan.algorithm_needs import check_needs
from testbed.plan.cautions import with_missing_default
from testbed.plan.model import Asked, PlannedNode, PlannedOverlay, RunPlan, RuntimeFacts, as_json
from testbed.plan.outbox import with_outbox
from testbed.plan.overlay import plan_overlay
from testbed.plan.pace import plan_pace
from testbed.plan.roles import assign_roles
from testbed.topologies.model import Topology

NOMINAL_MS_PER_STEP = 5.0
"""A step of a model of unknown cost, on a device of medium speed."""


def make_plan(
    experiment: Experiment,
    topology: Topology,
    *,
    run_id: str,
    runtime: str = "sim",
    engine: str = "flows",
    runtime_facts: RuntimeFacts | None = None,
    source: Origin | None = None,
    parameters: int | None = None,
    samples: tuple[int, ...] | None = None,
    nominal_ms_per_step: float = NOMINAL_MS_PER_STEP,
    sustained_ms_per_step: float = 0.0,
    time_scale: float = 1.0,
    versions: Mapping[str, str] | None = None,
    inputs: Mapping[str, str] | None = None,
) -> RunPlan:
    """The plan of one run, `paced`; raises InvalidInput with all inconsistencies."""
    origin = source or Origin()
    report = origin.report()
    if experiment.stop.accuracy is not None and experiment.evaluation.mode == "none":
        hint = "say how often, such as `evaluation: {every: 5}`, or leave `stop.accuracy` out"
        report.complain(
            "no-evaluation", "nothing is evaluated, so no accuracy is ever reached", hint, "stop", "accuracy"
        )
    roles = assign_roles(experiment, topology, report)
    pace = plan_pace(experiment, topology, report)
    report.raise_if_wrong()
    overlay = plan_overlay(experiment, topology, roles, origin, report)
    check_needs(experiment, overlay, report)
    report.raise_if_wrong()
    assert overlay is not None  # noqa: S101 - or there would have been findings
    positions = {rank: at for at, rank in enumerate(roles.learners)}
    nodes = tuple(
        PlannedNode(
            rank=node.rank,
            name=node.name,
            service=node.service.name,
            address=address(node.rank),
            image=node.service.image,
            roles=roles.of(node.rank),
            learner=positions.get(node.rank),
            pace=pace[node.rank],
        )
        for node in topology.nodes
    )
    plan = RunPlan(
        run_id=run_id,
        seed=experiment.seed,
        runtime=runtime,
        engine=engine,
        runtime_facts=runtime_facts,
        versions=dict(sorted((versions or {}).items())),
        inputs=dict(sorted((inputs or {}).items())),
        topology_name=topology.name,
        topology=as_json(topology),
        nodes=nodes,
        overlay=overlay,
        experiment=with_missing_default(with_outbox(_with_fanout(experiment, overlay)), topology),
        parameters=parameters,
        samples=samples,
        ms_per_step=nominal_ms_per_step,
        server=roles.server,
    ).with_parsed(topology)
    return paced(plan, nominal_ms_per_step, sustained_ms_per_step, time_scale)


def paced(plan: RunPlan, nominal_ms: float, sustained_ms: float = 0.0, time_scale: float = 1.0) -> RunPlan:
    """A plan of time scale 1, changed to another time scale and the step that belongs to it.

    A step takes the experiment's `ms_per_step`. With `auto` it takes the nominal device's time, or the shortest that
    this machine sustains if that is longer, both in emulated time.
    """
    experiment = plan.experiment
    used_ms = _used_ms_per_step(experiment.compute, nominal_ms, sustained_ms)
    # In mode `measured` no step time was asked for.
    is_measured = experiment.compute.mode == "measured"
    asked_ms = used_ms if is_measured else _used_ms_per_step(experiment.compute, nominal_ms, sustained=0.0)
    return plan.model_copy(
        update={
            "experiment": _for_scale(experiment, time_scale),
            "ms_per_step": used_ms,
            "time_scale": time_scale,
            "asked": Asked(ms_per_step=asked_ms, congestion=experiment.network.congestion),
        }
    )


def _with_fanout(experiment: Experiment, overlay: PlannedOverlay) -> Experiment:
    """Gives an algorithm that draws its peers their number."""
    algorithm = experiment.algorithm
    exchange = exchange_of(algorithm.name, algorithm.options)
    if not isinstance(exchange, WithPeers) or not exchange.draws:
        return experiment
    option = ALGORITHMS[algorithm.name].fanout_option
    assert option is not None  # noqa: S101 - the table has checked
    options = {**algorithm.options, option: overlay.degree or None}
    return experiment.model_copy(update={"algorithm": algorithm.model_copy(update={"options": options})})


def _for_scale(experiment: Experiment, time_scale: float) -> Experiment:
    """Replaces cubic by reno under a time scale: cubic grows by the host's clock, reno by acknowledgements."""
    network = experiment.network
    if time_scale == 1.0 or "congestion" in network.model_fields_set:
        return experiment
    return experiment.model_copy(update={"network": network.model_copy(update={"congestion": "reno"})})


def _used_ms_per_step(compute: Compute, nominal: float, sustained: float) -> float:
    told = _told_ms_per_step(compute)
    if told is not None:
        return told
    if compute.mode == "measured":
        return sustained or nominal  # in mode `measured` this is an estimate
    return max(nominal, sustained)


def _told_ms_per_step(compute: Compute) -> float | None:
    return None if compute.ms_per_step == "auto" else float(compute.ms_per_step)
