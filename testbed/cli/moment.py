"""`--at` and `--seed`: the time at which a command evaluates the network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from testbed.units import UnitError, parse_duration_s

if TYPE_CHECKING:
    from testbed.network.graph import Network
    from testbed.topologies.model import Topology


@dataclass(frozen=True, slots=True)
class Moment:
    """The start, before any event (None), or a time after it."""

    at_s: float | None
    seed: int

    def of(self, topology: Topology, network: Network) -> Network:
        if self.at_s is None:
            return network
        from testbed.network.moment import network_at

        return network_at(topology, network, self.at_s, self.seed)


def _duration(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    try:
        return None if text is None else parse_duration_s(text)
    except UnitError as problem:
        raise click.BadParameter(f"{problem.message}: {problem.hint}") from problem


def moment_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options, passed on as one `moment`."""

    @click.option("--at", "at_s", metavar="TIME", callback=_duration, help="After all events up to this time, as 45s.")
    @click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of events with a `count`.")
    @wraps(function)
    def with_moment(*arguments: Any, at_s: float | None, seed: int, **options: Any) -> Any:
        return function(*arguments, moment=Moment(at_s, seed), **options)

    return with_moment
