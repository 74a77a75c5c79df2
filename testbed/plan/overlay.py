"""From an experiment's overlay to a planned one: defaults, checks, and the table of neighbours.

Takes an experiment, a topology and the learners, gives a `PlannedOverlay`; complains in the experiment's own places.
"""

from __future__ import annotations

from testbed.code import CodeProblem, is_code
from testbed.experiment.language import Experiment
from testbed.experiment.origin import Origin, OriginReport
from testbed.plan.model import PlannedOverlay
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
from testbed.plan.roles import SERVED, Cast
from testbed.seeds import stream
from testbed.topologies.model import Topology

WITH_DEGREE = ("regular", "small-world")
_EPIDEMIC = ("regular", "full")


def plan_overlay(
    experiment: Experiment, topology: Topology, cast: Cast, origin: Origin, report: OriginReport
) -> PlannedOverlay | None:
    """Who exchanges models with whom; None, and findings, when that cannot be."""
    name = experiment.algorithm.name
    try:
        if name in SERVED and cast.server is not None:
            return _around(cast.server, experiment, len(cast.learners), report)
        if name == "epidemic":
            return _epidemic(experiment, cast)
        return _graph(experiment, topology, cast, origin)
    except NoGraph as problem:
        report.complain("overlay", problem.message, problem.hint, "overlay", problem.key)
    except CodeProblem as problem:
        report.complain("code", str(problem), "", "overlay", "kind")
    return None


def _planned(
    experiment: Experiment,
    cast: Cast,
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
        sampler=cast.sampler,
        neighbours=None
        if neighbours is None
        else tuple(tuple(cast.learners[at] for at in each) for each in neighbours),
        rewire=overlay.rewire,
        code=code,
    )


def _around(server: int, experiment: Experiment, learners: int, report: OriginReport) -> PlannedOverlay:
    """Everybody exchanges with the server alone."""
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


def _epidemic(experiment: Experiment, cast: Cast) -> PlannedOverlay:
    """The oracle's graphs are a dynamic regular overlay; with `local` everybody may be sent to."""
    overlay, options, count = experiment.overlay, experiment.algorithm.options, len(cast.learners)
    if overlay.kind not in _EPIDEMIC:
        raise NoGraph(f"epidemic draws its peers anew each round, not from {overlay.kind}", "remove `overlay`")
    fanout = options["fanout"]
    if fanout is not None and overlay.degree not in (None, fanout):
        raise NoGraph(f"`fanout` is {fanout}, `degree` {overlay.degree}", "remove one of the two", "degree")
    if overlay.peers == "sampler":
        raise NoGraph("with epidemic every node draws the peers itself, from the seed", "remove `peers`", "peers")
    oracle = options["mode"] == "oracle"
    chosen = fanout if fanout is not None else overlay.degree
    degree = chosen if isinstance(chosen, int) else default_fanout(count, regular=oracle)
    check_degree("regular" if oracle else "full", count, degree, dynamic=True)
    if oracle:
        return _planned(experiment, cast, "regular", degree, None, dynamic=True)
    return _planned(experiment, cast, "full", degree, None, dynamic=True)


def _graph(experiment: Experiment, topology: Topology, cast: Cast, origin: Origin) -> PlannedOverlay:
    overlay, count = experiment.overlay, len(cast.learners)
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
        planned = _planned(experiment, cast, "code" if code else overlay.kind, degree, None, dynamic=True, code=code)
        dynamic_graph(planned, count, experiment.seed, 0)  # whatever is wrong with it shows before anything starts
        return planned
    graph = _static(experiment, topology, cast, origin, degree or 0, code)
    parts = components(graph)
    if parts > 1:
        raise NoGraph(f"this overlay falls into {parts} parts that never meet", "add edges, or choose another kind")
    return _planned(experiment, cast, "code" if code else overlay.kind, degree, graph, dynamic=False, code=code)


def _static(
    experiment: Experiment, topology: Topology, cast: Cast, origin: Origin, degree: int, code: str | None
) -> Graph:
    overlay, count, seed = experiment.overlay, len(cast.learners), experiment.seed
    if code is not None:
        return code_graph(code, count, degree, 0, stream(seed, "topology", "static"))
    if overlay.kind not in ("file", "network"):
        return static_graph(overlay.kind, count, degree, seed, overlay.rewire, shuffled=overlay.order == "random")
    position = {rank: at for at, rank in enumerate(cast.learners)}
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
