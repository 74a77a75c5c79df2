"""Which average of models stands for a run.

Takes a `RunResult`, gives one of control's averages; touches nothing.

The last one may be of a few nodes only: those that were a round ahead when the time was over. It cannot be compared
with an average of all. One of fewer because the others had left or crashed can.
"""

from __future__ import annotations

from testbed.collect.run import Node, RunResult
from testbed.collect.wanted import Average

STAYED = frozenset({"finished", "stopped"})


def representative(result: RunResult) -> Average | None:
    """The last average of all learners that were there at its time; without one, the last of the most nodes."""
    averages = result.log.averages[::-1]
    learners = [node for node in result.nodes if node.learner]
    of_all = (each for each in averages if each.nodes >= sum(_was_there(node, each.t) for node in learners))
    most = max((each.nodes for each in averages), default=None)
    return next(of_all, None) or next((each for each in averages if each.nodes == most), None)


def _was_there(node: Node, t: float) -> bool:
    """Whether a node had begun and was not lost; one that is done is still there with its model."""
    journal = node.journal
    if journal is None or not journal.starts_s or journal.starts_s[0] > t:
        return False
    gone_s = journal.last_t if node.death is None else node.death.t
    return journal.end in STAYED or gone_s >= t
