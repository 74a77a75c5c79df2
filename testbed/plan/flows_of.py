"""The fluid model of a plan's network.

Takes a `RunPlan` and its network, gives `Flows`; touches nothing.
"""

from __future__ import annotations

from testbed.network.flows import BandwidthSharing, Flows, Tcp
from testbed.network.graph import Network
from testbed.plan.first_peers import first_connections
from testbed.plan.model import RunPlan
from testbed.seeds import derive


def flows_of(plan: RunPlan, network: Network) -> Flows:
    """The model with the settings and the random stream of the plan, so a rehearsal has the same draws as the run.

    Connections that real nodes open before emulated time begins are open.
    """
    settings = plan.experiment.network
    flows = Flows(
        network,
        seed=derive(plan.seed, "network"),
        tcp=Tcp(congestion=settings.congestion, idle_restart=settings.idle_restart),
        sharing=BandwidthSharing(settings.share),
    )
    for origin, dest in first_connections(plan):
        flows.connect(origin, dest)
    return flows
