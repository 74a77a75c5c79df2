"""Plans the overlay of an experiment: defaults, checks, and the table of neighbours.

Takes an experiment, a topology and the learners, gives a `PlannedOverlay`, or findings at places in the experiment.
"""

from __future__ import annotations

from testbed.catalogue.algorithms import ALGORITHMS, exchange_of
from testbed.catalogue.exchanges import BetweenVirtualNodes, InTurns, Partners, WithPeers, WithServer
from testbed.catalogue.sharings import SHARINGS
from testbed.code import CodeProblem, is_code
from testbed.experiment.language import DEFAULT_DEGREE, DEFAULT_PERIOD_S, DEFAULT_SHUFFLE, DEFAULT_VIEW, Experiment
from testbed.experiment.origin import Origin, OriginReport
from testbed.plan.model import PlannedOverlay, PlannedViews
from testbed.plan.overlay_files import network_edges, read_edges
from testbed.plan.overlay_graph import (
    DYNAMIC,
    Graph,
    NoGraph,
    check_degree,
    code_graph,
    components,
    default_degree,
    default_fanout,
    dynamic_graph,
    graph_of,
    static_graph,
)
from testbed.plan.roles import NodeRoles
from testbed.seeds import stream
from testbed.topologies.model import Topology

WITH_DEGREE = ("regular", "small-world")
_DRAWN = ("regular", "full")


def plan_overlay(
    experiment: Experiment, topology: Topology, roles: NodeRoles, origin: Origin, report: OriginReport
) -> PlannedOverlay | None:
    """The planned overlay; None, and findings, if there is none."""
    try:
        planned = _planned_for(experiment, topology, roles, origin, report)
        _check_sharing(experiment, planned)
        return planned
    except NoGraph as problem:
        report.complain("overlay", problem.message, problem.hint, "overlay", problem.key)
    except CodeProblem as problem:
        report.complain("code", str(problem), "", "overlay", "kind")
    return None


def _planned_for(
    experiment: Experiment, topology: Topology, roles: NodeRoles, origin: Origin, report: OriginReport
) -> PlannedOverlay:
    """The overlay that the algorithm needs: around a server, drawn by the algorithm itself, or the experiment's own."""
    exchange = exchange_of(experiment.algorithm.name, experiment.algorithm.options)
    if isinstance(exchange, WithServer) and roles.server is not None:
        return _around(roles.server, experiment, len(roles.learners), report)
    if isinstance(exchange, WithPeers) and exchange.draws:
        return _drawn(experiment, roles, exchange)
    if isinstance(exchange, InTurns):
        return _in_turns(experiment, roles)
    return _graph(experiment, topology, roles, origin)


def _check_sharing(experiment: Experiment, planned: PlannedOverlay) -> None:
    facts = SHARINGS.get(experiment.sharing.name)
    if facts is not None and facts.same_neighbours and planned.dynamic:
        message = f"{facts.name} remembers what its neighbours have, and here they are others in every round"
        raise NoGraph(message, "choose an overlay that stays the same, or another sharing", "dynamic")


def _planned(
    experiment: Experiment,
    roles: NodeRoles,
    kind: str,
    degree: int | None,
    neighbours: Graph | None,
    *,
    dynamic: bool,
    code: str | None = None,
) -> PlannedOverlay:
    overlay = experiment.overlay
    return PlannedOverlay(
        kind=kind,
        degree=degree,
        dynamic=dynamic,
        peers=overlay.peers,
        sampler=roles.sampler,
        neighbours=None
        if neighbours is None
        else tuple(tuple(roles.learners[at] for at in each) for each in neighbours),
        rewire=overlay.rewire,
        code=code,
    )


def _around(server: int, experiment: Experiment, learners: int, report: OriginReport) -> PlannedOverlay:
    """The overlay in which all learners exchange with the server alone."""
    overlay = experiment.overlay
    plain = overlay.peers == "seed" and not overlay.dynamic and overlay.degree is None
    if overlay.kind not in ("regular", "star") or not plain:
        report.complain(
            "overlay", f"with {experiment.algorithm.name} all exchange with the server", "remove `overlay`", "overlay"
        )
    return PlannedOverlay(
        kind="star",
        degree=1,
        dynamic=False,
        peers="seed",
        sampler=None,
        neighbours=((server,),) * learners,
        rewire=overlay.rewire,
        code=None,
    )


def _drawn(experiment: Experiment, roles: NodeRoles, exchange: WithPeers) -> PlannedOverlay:
    """A dynamic regular overlay, or one in which every node may be sent to."""
    overlay, count = experiment.overlay, len(roles.learners)
    _check_not_asked(experiment)
    fanout = exchange.fanout
    if fanout is not None and overlay.degree not in (None, fanout):
        option = ALGORITHMS[experiment.algorithm.name].fanout_option
        raise NoGraph(f"`{option}` is {fanout}, `degree` {overlay.degree}", "remove one of the two", "degree")
    regular = exchange.partners is Partners.REGULAR
    chosen = fanout if fanout is not None else overlay.degree
    degree = default_fanout(count, regular=regular) if chosen is None else chosen
    kind = "regular" if regular else "full"
    if isinstance(exchange, BetweenVirtualNodes):
        check_degree("regular", count * exchange.virtual, degree, dynamic=True, of="virtual nodes")
    else:
        check_degree(kind, count, degree, dynamic=True)
    return _planned(experiment, roles, kind, degree, None, dynamic=True)


def _in_turns(experiment: Experiment, roles: NodeRoles) -> PlannedOverlay:
    """An overlay in which every node may be sent to."""
    _check_not_asked(experiment)
    if experiment.overlay.degree is not None:
        raise NoGraph(
            f"with {experiment.algorithm.name} nodes have no neighbours to count", "remove `degree`", "degree"
        )
    return _planned(experiment, roles, "full", len(roles.learners) - 1, None, dynamic=True)


def _check_not_asked(experiment: Experiment) -> None:
    """Refuses an overlay of the experiment's own where the algorithm draws its peers."""
    overlay, name = experiment.overlay, experiment.algorithm.name
    if overlay.kind not in _DRAWN:
        raise NoGraph(f"{name} draws its peers anew each round, not from {overlay.kind}", "remove `overlay`")
    if overlay.peers == "sampler":
        raise NoGraph(f"with {name} every node draws the peers itself, from the seed", "remove `peers`", "peers")


def _graph(experiment: Experiment, topology: Topology, roles: NodeRoles, origin: Origin) -> PlannedOverlay:
    overlay, count = experiment.overlay, len(roles.learners)
    if overlay.kind == "cyclon":
        return _cyclon(experiment, roles)
    code = overlay.kind if is_code(overlay.kind) else None
    degree = overlay.degree
    if overlay.kind in WITH_DEGREE:
        degree = default_degree(overlay.kind, count) if degree is None else degree
        check_degree(overlay.kind, count, degree, dynamic=overlay.dynamic)
    elif degree is not None and code is None:
        raise NoGraph(f"`{overlay.kind}` has no degree to choose", "remove `degree`, or choose regular", "degree")
    else:
        degree = {"ring": min(2, count - 1), "full": count - 1}.get(overlay.kind, degree)
    if overlay.peers == "sampler" and not overlay.dynamic:
        raise NoGraph("a peer sampler is for dynamic overlays", "add `dynamic: true`", "peers")
    if overlay.dynamic:
        if code is None and overlay.kind not in DYNAMIC:
            raise NoGraph(
                f"`{overlay.kind}` is the same in every round", f"dynamic are: {', '.join(DYNAMIC)}", "dynamic"
            )
        planned = _planned(experiment, roles, "code" if code else overlay.kind, degree, None, dynamic=True, code=code)
        dynamic_graph(planned, count, experiment.seed, 0)  # errors of own code show before the run starts
        return planned
    graph = _static(experiment, topology, roles, origin, degree or 0, code)
    parts = components(graph)
    if parts > 1:
        raise NoGraph(f"this overlay falls into {parts} parts that never meet", "add edges, or choose another kind")
    return _planned(experiment, roles, "code" if code else overlay.kind, degree, graph, dynamic=False, code=code)


def _cyclon(experiment: Experiment, roles: NodeRoles) -> PlannedOverlay:
    """Views of at most all other nodes, from which each node draws its neighbours."""
    overlay, others = experiment.overlay, len(roles.learners) - 1
    if overlay.peers == "sampler":
        raise NoGraph("with cyclon nodes find their peers themselves", "remove `peers`", "peers")
    if overlay.dynamic:
        raise NoGraph("`cyclon` draws other neighbours every round anyway", "remove `dynamic`", "dynamic")
    most = DEFAULT_VIEW if overlay.view is None else overlay.view
    if overlay.shuffle is not None and overlay.shuffle > most:
        raise NoGraph(
            f"{overlay.shuffle} entries of a view of {most} cannot be sent", f"write at most {most}", "shuffle"
        )
    size = min(most, others)
    if overlay.degree is not None and overlay.degree > size:
        raise NoGraph(
            f"a degree of {overlay.degree} needs larger views: they have {size}", f"write at most {size}", "degree"
        )
    views = PlannedViews(
        size=size,
        shuffle=min(overlay.shuffle or DEFAULT_SHUFFLE, size),
        period_s=DEFAULT_PERIOD_S if overlay.period is None else overlay.period,
    )
    degree = min(DEFAULT_DEGREE, size) if overlay.degree is None else overlay.degree
    return _planned(experiment, roles, "cyclon", degree, None, dynamic=True).model_copy(update={"views": views})


def _static(
    experiment: Experiment, topology: Topology, roles: NodeRoles, origin: Origin, degree: int, code: str | None
) -> Graph:
    overlay, count, seed = experiment.overlay, len(roles.learners), experiment.seed
    if code is not None:
        return code_graph(code, count, degree, 0, stream(seed, "topology", "static"))
    if overlay.kind not in ("file", "network"):
        return static_graph(overlay.kind, count, degree, seed, overlay.rewire, shuffled=overlay.order == "random")
    position = {rank: at for at, rank in enumerate(roles.learners)}
    if overlay.kind == "network":
        pairs = [pair for pair in network_edges(topology) if pair[0] in position and pair[1] in position]
    else:
        name = overlay.file or ""
        if name not in origin.attached:
            raise NoGraph(f"{name} has not been read", "", "file")
        pairs = read_edges(origin.attached[name], topology.ranks, name)
        for rank in (rank for pair in pairs for rank in pair if rank not in position):
            raise NoGraph(f"{name}: {topology.nodes[rank].name} does not learn", "leave its edges out", "file")
    return graph_of(count, ((position[one], position[other]) for one, other in pairs))
