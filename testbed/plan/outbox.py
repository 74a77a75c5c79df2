"""The outbox of an experiment: as it says, or as its algorithm runs with.

Takes an `Experiment`; pure.
"""

from __future__ import annotations

from testbed.catalogue.algorithm_facts import OutboxFacts
from testbed.catalogue.algorithms import ALGORITHMS
from testbed.experiment.language import Experiment

_OF_OWN_CODE = OutboxFacts("fifo", in_flight=None)


def usual_outbox(experiment: Experiment) -> OutboxFacts:
    """What the experiment's algorithm runs with where nothing else is named."""
    facts = ALGORITHMS.get(experiment.algorithm.name)
    return _OF_OWN_CODE if facts is None else facts.outbox


def outbox_of(experiment: Experiment) -> OutboxFacts:
    """The policy and the limit that count."""
    usual, asked = usual_outbox(experiment), experiment.outbox
    return OutboxFacts(
        usual.policy if asked.policy is None else asked.policy,
        usual.in_flight if asked.in_flight is None else asked.in_flight,
    )


def dropped_in_vain(experiment: Experiment) -> str | None:
    """A warning where nodes wait for messages that an outbox may drop; None if they do not, or do not wait for ever."""
    facts, policy = ALGORITHMS.get(experiment.algorithm.name), outbox_of(experiment).policy
    if facts is None or policy == "fifo" or experiment.missing.then != "wait":
        return None
    if not facts.exchange(experiment.algorithm.options).waits:
        return None
    return (
        f"{facts.name} waits for messages that `outbox.policy: {policy}` may drop on slow links, and would then wait "
        "for ever: use `fifo`, or `missing.then: skip`"
    )


def with_outbox(experiment: Experiment) -> Experiment:
    """The experiment with the values that count, for its plan."""
    outbox = outbox_of(experiment)
    told = {"policy": outbox.policy, "in_flight": outbox.in_flight}
    return experiment.model_copy(update={"outbox": experiment.outbox.model_copy(update=told)})
