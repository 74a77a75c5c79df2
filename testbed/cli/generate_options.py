"""Options that all kinds of `testbed generate` share, and output of the generated topology."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from typing import Any

import click
from click.core import ParameterSource

from testbed.cli.findings import print_findings
from testbed.cli.output_file import write_atomically
from testbed.cli.quantity import Quantity
from testbed.errors import InvalidInput, UsageProblem
from testbed.topologies.generate.populate import Population, populate
from testbed.topologies.generate.sites import SiteNetwork, counted
from testbed.topologies.generate.stragglers import MOST_SLOWDOWN, StragglerKind, Stragglers
from testbed.topologies.model import DEFAULT_IMAGE, MAX_NODES, LinkProperties, Routing, Topology
from testbed.units import parse_latency_ms, parse_loss, parse_rate_bps

Command = Callable[..., None]

LONGEST_NAME = 100
LONGEST_IMAGE = 255

LATENCY = Quantity("latency", parse_latency_ms)
RATE = Quantity("rate", parse_rate_bps)
LOSS = Quantity("loss", parse_loss)
NODES = click.IntRange(1, MAX_NODES)


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """The values of the shared options."""

    nodes: int | None
    up: LinkProperties
    down: LinkProperties
    stragglers: Stragglers | None
    seed: int
    name: str | None
    image: str
    kollaps: bool
    routing: Routing
    output: str

    @property
    def place(self) -> str:
        """The output's name in messages."""
        return "standard output" if self.output == "-" else self.output

    def deliver(self, network: SiteNetwork, nodes: int, default_name: str, *, drawn: bool = False) -> Topology:
        """Populates the network and writes the topology; `drawn`: whether the network depends on the seed."""
        population = Population(nodes, self.up, self.down, self.stragglers, self.image, self.seed, self.kollaps)
        topology = populate(network, self.name or default_name, population, self.routing)
        _write(topology, self.output, self.place)
        _print_jitter(topology, self.place)
        if not drawn and self.stragglers is None and _given("seed"):
            click.echo("note: --seed changes nothing here: nothing is drawn at random", err=True)
        return topology


def _given(parameter: str) -> bool:
    """Whether an option was given explicitly."""
    source = click.get_current_context().get_parameter_source(parameter)
    return source not in (None, ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)


def shared_options(
    *, nodes_required: bool = True, nodes_help: str = "Nodes in all, spread evenly over the sites."
) -> Callable[[Command], Command]:
    """The options of every kind, passed on as `GenerateOptions` called `asked`."""

    def decorate(function: Command) -> Command:
        @wraps(function)
        def command(
            *,
            nodes: int | None,
            access_rate: float,
            access_up: float | None,
            access_down: float | None,
            access_latency: float,
            access_jitter: float,
            access_loss: float,
            stragglers: float,
            slowdown: float,
            straggler_kind: StragglerKind,
            seed: int,
            name: str | None,
            image: str,
            kollaps: bool,
            routing: Routing,
            output: str,
            **others: Any,
        ) -> None:
            def access(rate_bps: float | None) -> LinkProperties:
                rate_bps = access_rate if rate_bps is None else rate_bps
                return LinkProperties(access_latency, rate_bps, access_jitter, access_loss)

            _refuse_without_effect(bool(stragglers), access_up is not None and access_down is not None)
            slow = Stragglers(stragglers, slowdown, straggler_kind) if stragglers else None
            up, down = access(access_up), access(access_down)
            asked = GenerateOptions(nodes, up, down, slow, seed, name, image, kollaps, routing, output)
            function(asked=asked, **others)

        return _with_options(command, _shared(nodes_required, nodes_help))

    return decorate


def _refuse_without_effect(stragglers: bool, both_ways: bool) -> None:
    """Refuses options that would be ignored, since their user expects an effect."""
    for parameter in ("slowdown", "straggler_kind"):
        if not stragglers and _given(parameter):
            option = f"--{parameter.replace('_', '-')}"
            raise UsageProblem(f"{option} has no effect without stragglers", "say how many: --stragglers 0.1")
    if both_ways and _given("access_rate"):
        hint = "leave out one of the three"
        raise UsageProblem("--access-rate has no effect beside --access-up and --access-down", hint)


def core_options(function: Command) -> Command:
    """The properties of a link between two sites, passed on as `LinkProperties` called `core`."""

    @wraps(function)
    def command(*, latency: float, rate: float, jitter: float, loss: float, **others: Any) -> None:
        function(core=LinkProperties(latency, rate, jitter, loss), **others)

    return _with_options(command, [_LATENCY, *_CORE])


def core_options_without_latency(instead: str) -> Callable[[Command], Command]:
    """As `core_options`, for a kind whose latencies come from elsewhere: --latency is refused with that hint."""

    def decorate(function: Command) -> Command:
        @wraps(function)
        def command(*, latency: float | None, rate: float, jitter: float, loss: float, **others: Any) -> None:
            if latency is not None:
                raise UsageProblem("--latency has no effect on networks of this kind", instead)
            function(core=LinkProperties(0.0, rate, jitter, loss), **others)

        return _with_options(command, [click.option("--latency", type=LATENCY, hidden=True), *_CORE])

    return decorate


def _with_options(command: Command, options: list[Callable[[Command], Command]]) -> Command:
    """The command with the options, which `--help` shows in their order."""
    for option in reversed(options):
        command = option(command)
    return command


def _option(*names: str, **settings: Any) -> Callable[[Command], Command]:
    return click.option(*names, show_default=settings.get("default") is not None, **settings)


def _one_of(members: type[StrEnum]) -> dict[str, Any]:
    """Settings of an option that is one of an enumeration's members, written as its value."""
    return {
        "type": click.Choice([member.value for member in members]),
        "callback": lambda _context, _parameter, value: members(value),
    }


def _plain_text(longest: int, blanks: bool) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    def check(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
        if value is not None and not (
            0 < len(value) <= longest and value.isprintable() and (blanks or " " not in value)
        ):
            raise click.BadParameter(f"write 1 to {longest} printable characters{'' if blanks else ' without blanks'}")
        return value

    return check


def _shared(nodes_required: bool, nodes_help: str) -> list[Callable[[Command], Command]]:
    kinds = _one_of(StragglerKind)
    routings = _one_of(Routing)
    name = _plain_text(LONGEST_NAME, blanks=True)
    image = _plain_text(LONGEST_IMAGE, blanks=False)
    return [
        _option("--nodes", type=NODES, required=nodes_required, help=nodes_help),
        _option("--access-rate", type=RATE, default="100Mbps", help="Rate of every node's access link, both ways."),
        _option("--access-up", type=RATE, help="Another rate from the node to its site."),
        _option("--access-down", type=RATE, help="Another rate from the site to the node."),
        _option("--access-latency", type=LATENCY, default="1ms", help="One way."),
        _option("--access-jitter", type=LATENCY, default="0ms", help="Standard deviation."),
        _option("--access-loss", type=LOSS, default="0%", help="Of each direction."),
        _option("--stragglers", type=click.FloatRange(0, 1), default=0.0, help="Fraction of slow nodes, such as 0.1."),
        _option(
            "--slowdown", type=click.FloatRange(1, MOST_SLOWDOWN), default=5.0, help="How many times slower they are."
        ),
        _option("--straggler-kind", default=StragglerKind.NETWORK.value, help="What is slow about them.", **kinds),
        _option("--seed", type=click.IntRange(0, 2**63 - 1), default=1, help="Another seed, another network."),
        _option("--name", callback=name, help="Of the topology.  [default: kind and number of nodes]"),
        _option("--image", callback=image, default=DEFAULT_IMAGE, help="Container image of the nodes."),
        _option("--kollaps", is_flag=True, help="Add the dashboard that real Kollaps needs."),
        _option("--routing", default=Routing.HOPS.value, help="What makes a path short.", **routings),
        _option("-o", "--output", default="-", metavar="FILE", help="Ending in .xml or .yaml; - is YAML to stdout."),
    ]


_LATENCY = _option("--latency", type=LATENCY, default="10ms", help="Of a link between two sites, one way.")
_CORE = [
    _option("--rate", type=RATE, default="1Gbps", help="Of a link between two sites."),
    _option("--jitter", type=LATENCY, default="0ms", help="Of a link between two sites, as a standard deviation."),
    _option("--loss", type=LOSS, default="0%", help="Of a link between two sites."),
]


def _write(topology: Topology, output: str, where: str) -> None:
    from testbed.network.graph import count_directed_links
    from testbed.topologies.source import Form, form_of
    from testbed.topologies.write import write_text

    form = Form.YAML if output == "-" else form_of(output)
    if form is None:
        raise UsageProblem(f"{output}: neither XML nor YAML by its name", "name it .xml, .yaml or .yml")
    try:
        text = write_text(topology, form)
    except InvalidInput as problem:
        reason = problem.findings[0].message if problem.findings else problem.message
        raise UsageProblem(f"XML cannot say this: {reason}", "name the file .yaml") from problem
    if output == "-":
        click.echo(text, nl=False)
    else:
        write_atomically(output, text)
    sizes = (
        counted(len(topology.nodes), "node"),
        counted(len(topology.bridges), "bridge"),
        counted(count_directed_links(topology), "directed link"),
    )
    click.echo(f"{where}: {', '.join(sizes)}", err=True)


def _print_jitter(topology: Topology, file: str) -> None:
    """Prints the warnings of `validate` about jitter, since its values were just chosen."""
    if not any(link.properties.jitter_ms for link in topology.links):
        return
    from testbed.network.findings import path_findings
    from testbed.network.graph import expand

    # In an empty network no paths are followed, so findings about links alone cost little.
    nothing = expand(Topology(topology.name, (), ()))
    print_findings(file, (each for each in path_findings(topology, nothing) if each.code == "jitter"))
