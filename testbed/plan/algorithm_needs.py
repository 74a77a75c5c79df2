"""What an algorithm asks of the rest of its experiment: its sharing and its neighbours.

Takes an experiment and its overlay, gives findings; pure. The catalogue has what built-in algorithms ask; own code asks
nothing.
"""

from __future__ import annotations

from testbed.catalogue.algorithms import ALGORITHMS
from testbed.experiment.language import Experiment
from testbed.experiment.origin import OriginReport
from testbed.plan.model import PlannedOverlay
from testbed.plan.overlay_graph import DIRECTED


def check_needs(experiment: Experiment, overlay: PlannedOverlay | None, report: OriginReport) -> None:
    """Reports a sharing or an overlay with which the algorithm cannot work; no overlay has been reported already."""
    facts = ALGORITHMS.get(experiment.algorithm.name)
    if facts is None:
        return
    sharing = experiment.sharing.name
    if facts.sharings is not None and sharing not in facts.sharings:
        usable = " or ".join(f"`{name}`" for name in facts.sharings)
        report.complain(
            "sharing",
            f"{facts.name} cannot use `{sharing}`: it shares {usable} only",
            f"use {usable}, or another algorithm",
            "sharing",
            "name",
        )
    if overlay is None:
        return
    if facts.mutual and overlay.kind in DIRECTED:
        report.complain(
            "overlay",
            f"{facts.name} needs neighbours that have each other, and those of `{overlay.kind}` do not",
            "choose another overlay, or another algorithm",
            "overlay",
            "kind",
        )
    if facts.same_neighbours and overlay.dynamic:
        report.complain(
            "overlay",
            f"{facts.name} remembers something of each neighbour, and here they are others in every round",
            "choose an overlay that stays the same, or another algorithm",
            "overlay",
            "dynamic",
        )
