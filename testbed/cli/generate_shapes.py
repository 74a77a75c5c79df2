"""`testbed generate` for the kinds that are a formula: star, ring, tree, mesh, and the random ones."""

from __future__ import annotations

import click

from testbed.cli.generate_options import (
    LATENCY,
    NODES,
    GenerateOptions,
    core_options,
    core_options_without_latency,
    shared_options,
)
from testbed.topologies.generate import random_shapes, shapes
from testbed.topologies.generate.sites import SiteNetwork
from testbed.topologies.model import LinkProperties

_sites = click.option("--sites", type=NODES, help="Sites; nodes are spread evenly.  [default: as many as nodes]")
_CHANCE = click.FloatRange(0, 1)


def _counts(asked: GenerateOptions, sites: int | None) -> tuple[int, int]:
    assert asked.nodes is not None  # noqa: S101 - click requires --nodes of these kinds
    return asked.nodes, asked.nodes if sites is None else sites


def _deliver(asked: GenerateOptions, network: SiteNetwork, kind: str, *, drawn: bool = False) -> None:
    nodes, _sites = _counts(asked, None)
    asked.deliver(network, nodes, f"{kind}{nodes}", drawn=drawn)


@click.command("star")
@shared_options(nodes_help="Nodes around the switch.")
def _star(asked: GenerateOptions) -> None:
    """One switch with every node around it.

    \b
    Example:
      testbed generate star --nodes 60 --access-rate 60Mbps --stragglers 0.1 --kollaps -o star60.xml
    """
    _deliver(asked, shapes.star(), "star")


@click.command("ring")
@_sites
@core_options
@shared_options()
def _ring(asked: GenerateOptions, core: LinkProperties, sites: int | None) -> None:
    """Sites in a circle, each linked to two.

    \b
    Example:
      testbed generate ring --nodes 16 --latency 5ms -o ring16.yaml
    """
    _deliver(asked, shapes.ring(_counts(asked, sites)[1], core), "ring")


@click.command("tree")
@_sites
@click.option("--branching", type=click.IntRange(1), default=2, show_default=True, help="Sites below a site.")
@click.option("--leaves-only", is_flag=True, help="Nodes only at sites with nothing below them.")
@core_options
@shared_options()
def _tree(asked: GenerateOptions, core: LinkProperties, sites: int | None, branching: int, leaves_only: bool) -> None:
    """A complete tree of sites, filled level by level.

    \b
    Example:
      testbed generate tree --nodes 32 --sites 15 --leaves-only -o tree32.yaml
    """
    network = shapes.tree(_counts(asked, sites)[1], branching, core, leaves_only=leaves_only)
    _deliver(asked, network, "tree")


@click.command("mesh")
@_sites
@core_options
@shared_options()
def _mesh(asked: GenerateOptions, core: LinkProperties, sites: int | None) -> None:
    """Every site linked to every other.

    \b
    Example:
      testbed generate mesh --nodes 40 --sites 8 --latency 30ms -o mesh40.yaml
    """
    _deliver(asked, shapes.mesh(_counts(asked, sites)[1], core), "mesh")


@click.command("regular")
@_sites
@click.option("--degree", type=click.IntRange(0), default=4, show_default=True, help="Neighbours of every site.")
@core_options
@shared_options()
def _regular(asked: GenerateOptions, core: LinkProperties, sites: int | None, degree: int) -> None:
    """A random network where every site has the same number of neighbours.

    \b
    Example:
      testbed generate regular --nodes 64 --degree 5 --seed 7 -o regular64.yaml
    """
    network = random_shapes.regular(_counts(asked, sites)[1], degree, core, asked.seed)
    _deliver(asked, network, "regular", drawn=True)


@click.command("small-world")
@_sites
@click.option(
    "--degree", type=click.IntRange(2), default=4, show_default=True, help="Neighbours before rewiring: even."
)
@click.option("--rewiring", type=_CHANCE, default=0.1, show_default=True, help="Chance that a link is moved.")
@core_options
@shared_options()
def _small_world(asked: GenerateOptions, core: LinkProperties, sites: int | None, degree: int, rewiring: float) -> None:
    """A Watts–Strogatz network: a ring of neighbourhoods with a few long links.

    \b
    Example:
      testbed generate small-world --nodes 64 --degree 6 --rewiring 0.2 -o small64.yaml
    """
    network = random_shapes.small_world(_counts(asked, sites)[1], degree, rewiring, core, asked.seed)
    _deliver(asked, network, "small-world", drawn=True)


@click.command("barabasi-albert")
@_sites
@click.option("--links", type=click.IntRange(1), default=2, show_default=True, help="Links that a new site brings.")
@core_options
@shared_options()
def _barabasi_albert(asked: GenerateOptions, core: LinkProperties, sites: int | None, links: int) -> None:
    """A scale-free network: a few sites have many links.

    \b
    Example:
      testbed generate barabasi-albert --nodes 100 --links 3 -o scale-free.yaml
    """
    network = random_shapes.barabasi_albert(_counts(asked, sites)[1], links, core, asked.seed)
    _deliver(asked, network, "barabasi-albert", drawn=True)


@click.command("waxman")
@_sites
@click.option(
    "--alpha", type=_CHANCE, default=0.4, show_default=True, help="Chance that two very close sites are linked."
)
@click.option(
    "--beta", type=click.FloatRange(0, min_open=True), default=0.2, show_default=True, help="How far links reach."
)
@click.option("--span", type=LATENCY, default="40ms", show_default=True, help="One way along the plane's side.")
@core_options_without_latency("latencies follow from lengths: give --span")
@shared_options()
def _waxman(
    asked: GenerateOptions, core: LinkProperties, sites: int | None, alpha: float, beta: float, span: float
) -> None:
    """Sites at random places of a plane; near ones are likelier to be linked, and latencies follow from lengths.

    \b
    Example:
      testbed generate waxman --nodes 50 --span 30ms --routing latency -o waxman50.yaml
    """
    network = random_shapes.waxman(_counts(asked, sites)[1], alpha, beta, span, core, asked.seed)
    _deliver(asked, network, "waxman", drawn=True)


SHAPES: tuple[click.Command, ...] = (_star, _ring, _tree, _mesh, _regular, _small_world, _barabasi_albert, _waxman)
