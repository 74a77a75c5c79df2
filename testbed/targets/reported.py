"""Findings that reading a file has reported already, so that no target repeats them.

Takes a `Topology` and the findings so far, answers by code and element; touches nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from testbed.errors import Finding, Where
from testbed.topologies.model import Topology


class ReportedFindings:
    """The codes reported for each link and event.

    A finding about an attribute lies between the place of its element and that of the next element.
    """

    def __init__(self, topology: Topology, findings: Iterable[Finding]) -> None:
        elements = (*topology.links, *topology.events)
        self._places = sorted({element.where for element in elements if element.where is not None})
        self._found = {(finding.code, self._element(finding.where)) for finding in findings}

    def _element(self, where: Where) -> Where | None:
        """The last link or event that begins at or before a place."""
        following = bisect_right(self._places, where)
        return self._places[following - 1] if following else None

    def of(self, code: str, where: Where | None) -> bool:
        """Whether a code was reported for the element that begins there."""
        return where is not None and (code, where) in self._found
