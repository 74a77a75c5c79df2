"""Requirements of Docker, Swarm and Kubernetes on names and sizes, and limits of shaping at the sender.

Takes a `Topology` and its `Network`, gives findings; touches nothing. On Swarm and Kubernetes every node shapes what
it sends with the kernel's own queues, one for each path; on Docker the fabric carries packets link by link.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from testbed.errors import Finding, error, warning
from testbed.network.graph import Network
from testbed.targets.host_names import learners, not_a_label, too_long_a_label
from testbed.targets.shared_links import crowded_downlink
from testbed.topologies.model import BUILT_IMAGE, DEFAULT_IMAGE, DEFAULT_QUEUE, Link, LinkEvent, Topology
from testbed.units import format_rate, shown

_OVERLAY_ENDPOINTS = 250
"""Of 254 addresses in a /24: the rest is for the network itself."""
_PODS_PER_MACHINE = 110
MAX_DOCKER_NODES = 2**17 - 2
"""Addresses in 198.18.0.0/15, without the first and the last."""
_OUTSIDE_CONTAINER_NAME = re.compile(r"[^a-zA-Z0-9_.-]")


def foreign_programs(topology: Topology, image: str = BUILT_IMAGE) -> Iterator[Finding]:
    """Warns of images and commands in a topology: every container of a run has one image and runs a learner."""
    for service in learners(topology):
        if service.image not in (DEFAULT_IMAGE, image):
            yield error(
                "docker-image",
                f"{shown(service.name)} names the image {shown(service.image)}, which nothing would run: all "
                f"containers of a run have {shown(image)}",
                f"write {DEFAULT_IMAGE}, which stands for that one; `testbed build --tag NAME` makes another, and "
                "`testbed deploy --image NAME` runs it",
                service.where,
            )
        if service.command:
            yield error(
                "docker-command",
                f"{shown(service.name)} has the command {shown(' '.join(service.command))}, which nothing would run: "
                "its containers run a learner",
                "remove `command`; what a node does is in the experiment's algorithm",
                service.where,
            )


def docker_findings(topology: Topology) -> Iterator[Finding]:
    yield from foreign_programs(topology)
    for service in learners(topology):
        bad = _OUTSIDE_CONTAINER_NAME.search(service.name)
        if bad is not None:
            message = f"{shown(service.name)} cannot name a container: it holds {shown(bad[0])}"
            yield error("docker-name", message, "use letters, digits and _ . - only", service.where)
    if len(topology.nodes) > MAX_DOCKER_NODES:
        message = f"{len(topology.nodes)} nodes: their network, 198.18.0.0/15, has {MAX_DOCKER_NODES} addresses"
        yield error("docker-addresses", message, "lower `replicas`", topology.nodes[0].service.where)


def swarm_findings(topology: Topology, network: Network) -> Iterator[Finding]:
    yield from not_a_label(learners(topology), "swarm-name")
    yield from too_long_a_label(learners(topology), "swarm-name-length")
    if len(topology.nodes) > _OVERLAY_ENDPOINTS:
        yield warning(
            "swarm-endpoints",
            f"{len(topology.nodes)} nodes: an overlay network of the usual size (/24) holds about {_OVERLAY_ENDPOINTS}",
            "create the network with a larger subnet, such as 10.1.0.0/20",
            topology.nodes[0].service.where,
        )
    yield from _sender_side("swarm", topology, network)


def kubernetes_findings(topology: Topology, network: Network) -> Iterator[Finding]:
    yield from not_a_label(learners(topology), "kubernetes-name")
    for service in learners(topology):
        if any(char.isupper() for char in service.name):
            message = f"{shown(service.name)}: pods have lower-case names"
            yield error("kubernetes-upper-case", message, f"call it {shown(service.name.lower())}", service.where)
    yield from too_long_a_label(learners(topology), "kubernetes-name-length")
    count = len(topology.nodes)
    if count > _PODS_PER_MACHINE:
        yield warning(
            "kubernetes-pods",
            f"{count} pods: a machine takes {_PODS_PER_MACHINE} unless its kubelet is told otherwise",
            f"have at least {-(-count // _PODS_PER_MACHINE)} machines (their system pods count, too), or raise maxPods",
            topology.nodes[0].service.where,
        )
    yield from _sender_side("kubernetes", topology, network)


def _sender_side(target: str, topology: Topology, network: Network) -> Iterator[Finding]:
    crowd = crowded_downlink(network)
    if crowd is not None:
        link = topology.links[int(network.declared[crowd.link])]
        yield warning(
            f"{target}-shared-links",
            f"paths of several senders share links, such as from {shown(link.origin)} to {shown(link.dest)} "
            f"({crowd.partners} nodes send to `{network.names[crowd.rank]}`): here every sender shapes its own paths, "
            "and together they can have more than such a link's rate",
            "do not trust rates where several nodes send at once, or use a runtime with the fabric (docker, local)",
            link.where,
        )
    events = [event for event in topology.events if isinstance(event, LinkEvent)]
    loaded: list[tuple[Link | LinkEvent, float]] = [
        (link, link.properties.background_bps) for link in topology.links if link.properties.background_bps
    ]
    loaded += [(event, event.change.background_bps) for event in events if event.change.background_bps]
    for what, background_bps in loaded[:1]:
        yield warning(
            f"{target}-background",
            f"background traffic is not reproduced, such as {format_rate(background_bps)} from "
            f"{shown(what.origin)} to {shown(what.dest)}: nothing but the nodes' own traffic is on the links",
            "lower the link's rate by as much instead",
            what.where,
        )
    queued = next((link.where for link in topology.links if link.properties.queue != DEFAULT_QUEUE), None) or next(
        (event.where for event in events if event.change.queue not in (None, DEFAULT_QUEUE)),
        None,
    )
    if queued is not None:
        yield warning(
            f"{target}-queues",
            "the lengths of links' queues are not reproduced: the only queues are the senders', one for each path",
            "do not trust losses and delays under congestion",
            queued,
        )
