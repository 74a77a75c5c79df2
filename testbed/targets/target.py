"""The runtimes that a topology can be meant for.

Touches nothing, and imports nothing heavy: commands name them as choices.
"""

from __future__ import annotations

from enum import StrEnum


class Target(StrEnum):
    """What a topology can be meant for; each has rules of its own."""

    KOLLAPS = "kollaps"
    SWARM = "swarm"
    KUBERNETES = "kubernetes"
    DOCKER = "docker"
