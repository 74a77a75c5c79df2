"""The fluid model of a plan's network.

Takes a `RunPlan` and its network, gives `Flows`; touches nothing.
"""

from __future__ import annotations

from testbed.network.flows import BandwidthSharing, Flows, Tcp
from testbed.network.graph import Network
from testbed.plan.model import RunPlan
from testbed.seeds import derive


def flows_of(plan: RunPlan, network: Network) -> Flows:
    """The model with the settings and the random stream of the plan, so a rehearsal has the same draws as the run."""
    settings = plan.experiment.network
    return Flows(
        network,
        seed=derive(plan.seed, "network"),
        tcp=Tcp(congestion=settings.congestion, idle_restart=settings.idle_restart),
        sharing=BandwidthSharing(settings.share),
    )
