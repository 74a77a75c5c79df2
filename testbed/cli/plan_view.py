"""Prints a plan: nodes, overlay, data, and the estimated cost."""

from __future__ import annotations

from collections import Counter
from statistics import median

from testbed.catalogue.algorithm_table import outbox_in_words
from testbed.catalogue.exchanges import BetweenVirtualNodes, InTurns, Partners, WithPeers
from testbed.cli.output import Cell, Format, print_csv, print_json, print_table
from testbed.experiment.language import Experiment
from testbed.plan.estimate import Estimate, estimate
from testbed.plan.instead import congestion_words, is_longer, step_words
from testbed.plan.model import PlannedNode, RunPlan
from testbed.plan.outbox import outbox_of, usual_outbox
from testbed.plan.overlay_graph import diameter, graph_of
from testbed.plan.traffic import exchange_in, steps_per_round
from testbed.plan.uplinks import Uplinks
from testbed.units import format_duration, format_number, size_for_people

_MOST_SERVICES = 20
_LARGEST_GRAPH = 2048
"""The most learners for which the diameter is computed."""


def print_plan(plan: RunPlan, output_format: Format) -> None:
    """Prints the plan to stdout: in a few lines, or as one JSON value."""
    cost = estimate(plan)
    match output_format:
        case Format.JSON:
            print_json(_as_json(plan, cost))
        case Format.CSV:
            print_csv(("what", "value"), _rows(plan, cost))
        case Format.TABLE:
            print_table(("service", "nodes", "roles", "addresses", "time of a step"), _services(plan))
            print_table(("what", "value"), _rows(plan, cost))


def _services(plan: RunPlan) -> list[list[Cell]]:
    """One row per service; services beyond the limit are counted in the last row."""
    by_service: dict[str, list[PlannedNode]] = {}
    for node in plan.nodes:
        by_service.setdefault(node.service, []).append(node)
    rows: list[list[Cell]] = []
    for name, nodes in list(by_service.items())[:_MOST_SERVICES]:
        roles = Counter(", ".join(node.roles) for node in nodes)
        paces = sorted(node.pace[0][1] * plan.ms_per_step for node in nodes)
        pace = _ms(paces[0]) if paces[0] == paces[-1] else f"{_ms(paces[0])} to {_ms(paces[-1])}"
        if any(len(node.pace) > 1 for node in nodes):
            pace += ", changing"
        first, last = nodes[0].address, nodes[-1].address
        told = "; ".join(role if len(roles) == 1 else f"{count} {role}" for role, count in roles.items())
        rows.append([name, len(nodes), told, first if first == last else f"{first} to {last}", pace])
    if len(by_service) > _MOST_SERVICES:
        left = list(by_service.values())[_MOST_SERVICES:]
        rows.append([f"… {len(left)} more services", sum(len(nodes) for nodes in left), "", "", ""])
    return rows


def _rows(plan: RunPlan, cost: Estimate) -> list[tuple[str, str]]:
    experiment = plan.experiment
    training, data = experiment.training, experiment.data
    amount = f"{training.steps} steps" if training.steps is not None else f"{training.epochs} epochs"
    rows = [
        ("run", f"{plan.run_id} in {plan.runtime}, network by {_engine(plan)}, seed {plan.seed}"),
        ("topology", f"{plan.topology_name}: {len(plan.nodes)} nodes, {len(plan.learners)} of them learn"),
        ("overlay", _overlay(plan)),
        ("algorithm", _named(experiment.algorithm.name, experiment.algorithm.options)),
        ("sharing", _named(experiment.sharing.name, experiment.sharing.options)),
        ("outbox", _outbox(experiment)),
        ("data", f"{_named(data.name, data.options)}, by {_partition(plan)}"),
        ("samples of a node", _samples(plan)),
        ("model", f"{_named(experiment.model.name, experiment.model.options)}, {_count(plan.parameters)} parameters"),
        ("training", f"{amount} of {training.batch} samples a round, learning rate {training.lr:g}"),
        ("a step", f"{step_words(plan)}: {_reason(plan)}"),
        ("TCP", congestion_words(plan)),
        ("time scale", _scale(plan)),
        ("a model's message", _bytes(cost.message_bytes)),
        ("bytes of a round", f"{_bytes(cost.round_bytes)} in all, {_bytes(cost.round_bytes_node)} sent by a node"),
        ("time of a round", _round(cost)),
        ("until", " or ".join(_until(plan)) or "stopped"),
        ("the whole run", f"about {_time(cost.total_s)} of emulated time, {_bytes(cost.total_bytes)}"),
    ]
    if cost.assumed:
        rows.append(("assumed", f"{', and '.join(cost.assumed)}: the experiment's own code does not say"))
    if cost.uplinks is not None and cost.uplinks.overloaded:
        rows.append(("slow uplinks", _slow_uplinks(cost.uplinks)))
    if cost.unreachable:
        rows.append(("without a path", f"{cost.unreachable} pairs of the overlay, at the start"))
    return [(what, value) for what, value in rows if value]


def _outbox(experiment: Experiment) -> str:
    """The policy, and the algorithm's own if the experiment names another one."""
    used, usual = outbox_of(experiment), usual_outbox(experiment)
    other = "" if used == usual else f"; {experiment.algorithm.name} would have {outbox_in_words(usual)}"
    return outbox_in_words(used) + other


def _slow_uplinks(uplinks: Uplinks) -> str:
    fate = {
        "fifo": "with `fifo` the rest waits ever longer (with `flush` it would be dropped)",
        "flush": "with `flush` the rest is dropped (with `fifo` it would wait ever longer)",
        "latest": "with `latest` newer messages to the same nodes replace the rest",
    }[uplinks.policy]
    nodes = "1 node sends" if uplinks.overloaded == 1 else f"{uplinks.overloaded} nodes send"
    share = f"the slowest uplink carries {100 * uplinks.share:.2g} % of what its node sends in a round"
    return f"{nodes} more than can leave; {share}: {fate}"


def _engine(plan: RunPlan) -> str:
    choice = plan.data_plane
    return plan.engine if choice is None else f"{plan.engine} ({choice.used or choice.asked})"


def _overlay(plan: RunPlan) -> str:
    overlay = plan.overlay
    what = overlay.code or overlay.kind
    if overlay.degree is not None and overlay.kind in ("regular", "small-world"):
        what += f", degree {overlay.degree}"
    if plan.server is not None and overlay.kind == "star":
        return f"all with {plan.nodes[plan.server].name}"
    if isinstance(exchange := exchange_in(plan), WithPeers) and exchange.partners is Partners.ANY:
        if isinstance(exchange, BetweenVirtualNodes):
            return f"regular, degree {overlay.degree}, over {exchange.virtual} virtual nodes of each, new every round"
        return f"{overlay.degree} of the others, drawn by each node every round"
    if isinstance(exchange, InTurns):
        return f"{min(exchange.active, len(plan.learners))} of the learners work in a round, drawn anew every time"
    if overlay.views is not None:
        views = overlay.views
        every = f"{views.shuffle} of them shuffled every {format_duration(views.period_s)}"
        return f"{what}, degree {overlay.degree}, from views of {views.size} nodes, {every}"
    if overlay.dynamic:
        by = f"asked of {plan.nodes[overlay.sampler].name}" if overlay.sampler is not None else "drawn from the seed"
        return f"{what}, new every round, {by}"
    shape = _shape(plan)
    span = f", diameter {shape['diameter']}" if shape["diameter"] is not None else ""
    return f"{what}: {shape['edges']} edges{span}"


def _shape(plan: RunPlan) -> dict[str, int | None]:
    """Edges and diameter of a static overlay."""
    table = plan.overlay.neighbours
    if table is None or (plan.server is not None and plan.overlay.kind == "star"):
        return {"edges": None, "diameter": None}
    position = {rank: at for at, rank in enumerate(plan.learners)}
    graph = graph_of(len(table), ((at, position[rank]) for at, ranks in enumerate(table) for rank in ranks))
    span = diameter(graph) if len(graph) <= _LARGEST_GRAPH else None
    return {"edges": sum(map(len, graph)) // 2, "diameter": span}


def _named(name: str, options: object) -> str:
    given = {key: value for key, value in options.items() if value is not None} if isinstance(options, dict) else {}
    return name + (" (" + ", ".join(f"{key} {_option(value)}" for key, value in given.items()) + ")" if given else "")


def _option(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "×".join(_option(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _partition(plan: RunPlan) -> str:
    partition = plan.experiment.data.partition
    match partition.kind:
        case "shards":
            return f"shards ({partition.per_node} a node, {partition.variant})"
        case "dirichlet":
            return f"dirichlet (alpha {partition.alpha:g})"
        case _:
            return partition.kind


def _samples(plan: RunPlan) -> str:
    if not plan.samples:
        return "unknown"
    if plan.samples_estimated:
        return f"about {round(median(plan.samples))} (estimated: {plan.experiment.data.name} is not here yet)"
    least, middle, most = min(plan.samples), median(plan.samples), max(plan.samples)
    return str(least) if least == most else f"{least} to {most}, {middle:g} in the middle"


def _reason(plan: RunPlan) -> str:
    if plan.experiment.compute.mode == "measured":
        return "only for this estimate; the run takes what it takes"
    if is_longer(plan):
        return "the machine that this was planned on cannot train faster"
    if plan.experiment.compute.ms_per_step == "auto":
        return "the model's nominal cost on a device of medium speed, the same on every host"
    return "as the experiment says"


def _scale(plan: RunPlan) -> str:
    """The row of the time scale; none at time scale 1 and in virtual time."""
    if plan.time_scale == 1.0:
        return ""
    return f"{plan.time_scale:g}: everything takes {plan.time_scale:g} times longer in real time"


def _round(cost: Estimate) -> str:
    if cost.round_s is None:
        return f"computing {_time(cost.compute_s)}"
    slow = f", {_time(cost.compute_slowest_s)} the slowest" if cost.compute_slowest_s > cost.compute_s else ""
    message = f"; a message {_time(cost.transfer_s)}, {_time(cost.transfer_slowest_s)} the slowest"
    return f"about {_time(cost.round_s)} (computing {_time(cost.compute_s)}{slow}{message if cost.transfer_s else ''})"


def _until(plan: RunPlan) -> list[str]:
    stop = plan.experiment.stop
    told = [] if stop.rounds is None else [f"{stop.rounds} rounds"]
    if stop.time_s is not None:
        told.append(f"{format_number(stop.time_s)} s")
    if stop.accuracy is not None:
        told.append(f"accuracy {stop.accuracy:g}")
    return told


def _as_json(plan: RunPlan, cost: Estimate) -> dict[str, object]:
    samples = plan.samples
    return {
        "run_id": plan.run_id,
        "runtime": plan.runtime,
        "engine": plan.engine,
        "data_plane": None if plan.data_plane is None else plan.data_plane.model_dump(),
        "seed": plan.seed,
        "topology": plan.topology_name,
        "nodes": len(plan.nodes),
        "learners": len(plan.learners),
        "services": dict(Counter(node.service for node in plan.nodes)),
        "server": None if plan.server is None else plan.nodes[plan.server].name,
        "overlay": {
            "kind": plan.overlay.kind,
            "degree": plan.overlay.degree,
            "dynamic": plan.overlay.dynamic,
            "sampler": None if plan.overlay.sampler is None else plan.nodes[plan.overlay.sampler].name,
            **_shape(plan),
        },
        "samples": {"min": min(samples), "median": median(samples), "max": max(samples)} if samples else None,
        "samples_estimated": plan.samples_estimated,
        "parameters": plan.parameters,
        "steps_per_round": steps_per_round(plan),
        "ms_per_step": plan.ms_per_step,
        "asked": None if plan.asked is None else plan.asked.model_dump(mode="json"),
        "congestion": plan.experiment.network.congestion,
        "time_scale": plan.time_scale,
        "estimate": {
            "message_bytes": cost.message_bytes,
            "round_bytes": cost.round_bytes,
            "round_bytes_node": cost.round_bytes_node,
            "compute_s": cost.compute_s,
            "compute_slowest_s": cost.compute_slowest_s,
            "transfer_s": cost.transfer_s,
            "transfer_slowest_s": cost.transfer_slowest_s,
            "round_s": cost.round_s,
            "rounds": cost.rounds,
            "total_s": cost.total_s,
            "total_bytes": cost.total_bytes,
            "peak_bytes_s": cost.peak_bytes_s,
            "peak_is_bound": cost.peak_is_bound,
            "unreachable": cost.unreachable,
            "assumed": list(cost.assumed),
            "uplinks": None
            if cost.uplinks is None
            else {
                "carried": cost.uplinks.share,
                "overloaded": cost.uplinks.overloaded,
                "policy": cost.uplinks.policy,
            },
        },
        "experiment": plan.experiment.model_dump(mode="json"),
    }


def _count(number: int | None) -> str:
    return "an unknown number of" if number is None else f"{number:,}".replace(",", " ")


def _ms(milliseconds: float) -> str:
    return f"{milliseconds:.3g} ms" if milliseconds < 1000 else _time(milliseconds / 1e3)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "an unknown amount"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    if seconds < 7200:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / 3600:.3g} h"


def _bytes(size: int | None) -> str:
    return "unknown" if size is None else size_for_people(size)
