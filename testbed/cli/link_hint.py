"""The hint of an error about a missing link. Takes a run and names, gives words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from testbed.cli.run_target import plan_of
from testbed.errors import UsageProblem
from testbed.rundir import RunDirectory
from testbed.topologies.model import Topology

_MOST_TOLD = 8


@contextmanager
def neighbours_told(directory: RunDirectory, a: str | None, b: str | None) -> Iterator[None]:
    """Adds to an answer about a missing link a hint with the links that exist."""
    try:
        yield
    except UsageProblem as problem:
        if problem.hint or a is None or b is None or not problem.message.startswith("there is no link"):
            raise
        topology = plan_of(directory).load_topology()
        told = [
            f"{name} has links to {', '.join(sorted(found)[:_MOST_TOLD])}"
            for name in (a, b)
            if (found := _neighbours(topology, name))
        ]
        raise UsageProblem(problem.message, "; ".join(told)) from None


def _neighbours(topology: Topology, name: str) -> set[str]:
    """The other ends of a node's or bridge's links, by their names in the topology."""
    mine = set(topology.select(name))

    def is_it(endpoint: str) -> bool:
        return endpoint == name or not mine.isdisjoint(topology.select(endpoint))

    found = {link.dest for link in topology.links if is_it(link.origin)}
    return found | {link.origin for link in topology.links if is_it(link.dest)}
