"""Targets: what a runtime cannot do with a topology.

Takes a `Topology`, its `Network` and the findings so far, gives findings about one runtime; touches nothing. `rules`
is the entry point. An error means that the file would not run there, or would run as something else. A warning means
that it runs, and says what to check before trusting the results. May import the leaves, `topologies` and `network`.
"""

from __future__ import annotations

from enum import StrEnum


class Target(StrEnum):
    """A runtime that a topology can be meant for; each has rules of its own."""

    KOLLAPS = "kollaps"
    SWARM = "swarm"
    KUBERNETES = "kubernetes"
    DOCKER = "docker"
