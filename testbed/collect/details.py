"""A run's results by round, over its nodes, and by node, over its rounds.

Takes a `RunResult`, gives rows of plain values, one per round or node; touches nothing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from testbed.collect.journal import JournalResult
from testbed.collect.run import NodeResult, RunResult, State
from testbed.collect.spread import Quantiles, Spread, quantiles, spread
from testbed.collect.summary import evaluated


@dataclass(frozen=True, slots=True)
class RoundRow:
    """One round, over all learners that finished it."""

    run_id: str
    round: int
    nodes: int
    first_t: float
    median_t: float
    last_t: float
    round_s: Quantiles
    training_loss: Spread
    sent_bytes: int
    received_bytes: int
    evaluated_nodes: int
    accuracy: Spread
    loss: Spread


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node, from its first start to its end."""

    run_id: str
    node: str
    rank: int | None
    learner: bool
    roles: str | None
    state: str
    end: str | None
    """From its journal, or from control: `crashed` where planned, otherwise `died`."""
    end_planned: bool | None
    """Set for a node that crashed, died or left; None for all others."""
    end_s: float | None
    failure: str | None
    starts: int
    wall_clock_s: float | None
    rounds: int
    round_s: Quantiles
    train_s: float | None
    encode_s: float | None
    wait_s: float | None
    aggregate_s: float | None
    evaluate_s: float | None
    steps: int | None
    payload_sent: int | None
    payload_received: int | None
    metadata_sent: int | None
    metadata_received: int | None
    control_sent: int | None
    control_received: int | None
    messages_sent: int | None
    messages_received: int | None
    dropped: int | None
    expired: int | None
    accuracy: float | None
    loss: float | None


def round_rows(result: RunResult) -> list[RoundRow]:
    """Rounds by number; evaluations after a round belong to that round."""
    columns = [journal.rounds for journal in result.learners]
    if not columns:
        return []
    number = np.concatenate([each.number for each in columns])
    order = np.argsort(number, kind="stable")
    numbers, begins = np.unique(number[order], return_index=True)

    def by_round(parts: list[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
        return np.split(np.concatenate(parts)[order], begins[1:])

    accuracy, loss = defaultdict[int, list[float]](list), defaultdict[int, list[float]](list)
    for _journal, evaluations in evaluated(result):
        for each in evaluations:
            if each.accuracy is not None:
                accuracy[each.round].append(each.accuracy)
            if each.loss is not None:
                loss[each.round].append(each.loss)
    rows = zip(
        numbers.astype(int).tolist(),
        by_round([each.t for each in columns]),
        by_round([each.duration_s for each in columns]),
        by_round([each.loss for each in columns]),
        by_round([each.sent_bytes for each in columns]),
        by_round([each.received_bytes for each in columns]),
        strict=False,  # without rounds there are no numbers, but one empty part
    )
    return [
        RoundRow(
            run_id=result.run_id,
            round=each,
            nodes=t.size,
            first_t=float(t.min()),
            median_t=float(np.median(t)),
            last_t=float(t.max()),
            round_s=quantiles(duration_s),
            training_loss=spread(training_loss),
            sent_bytes=int(sent.sum()),
            received_bytes=int(received.sum()),
            evaluated_nodes=max(len(accuracy[each]), len(loss[each])),
            accuracy=spread(accuracy[each]),
            loss=spread(loss[each]),
        )
        for each, t, duration_s, training_loss, sent, received in rows
    ]


def node_rows(result: RunResult) -> list[NodeRow]:
    """Nodes by rank, those without a journal included."""
    last = {id(journal): evaluations[-1] for journal, evaluations in evaluated(result)}
    rows = []
    for node in result.nodes:
        journal = node.journal
        known = last.get(id(journal))
        phases = dict.fromkeys(("train_s", "encode_s", "wait_s", "aggregate_s", "evaluate_s"))
        rows.append(
            NodeRow(
                run_id=result.run_id,
                node=node.name,
                rank=node.rank,
                learner=node.learner,
                roles=" ".join(journal.roles) if journal else None,
                state=node.state.value,
                **asdict(_ending(node)),
                failure=journal.failure if journal else None,
                starts=len(journal.starts_s) if journal else 0,
                wall_clock_s=_worked_s(journal) if journal else None,
                rounds=journal.round_count if journal else 0,
                round_s=quantiles(journal.rounds.duration_s) if journal else Quantiles(),
                **(asdict(journal.phases) if journal else phases),
                steps=journal.steps if journal else None,
                payload_sent=journal.sent.payload if journal else None,
                payload_received=journal.received.payload if journal else None,
                metadata_sent=journal.sent.metadata if journal else None,
                metadata_received=journal.received.metadata if journal else None,
                control_sent=journal.sent.control if journal else None,
                control_received=journal.received.control if journal else None,
                messages_sent=journal.sent.messages if journal else None,
                messages_received=journal.received.messages if journal else None,
                dropped=journal.dropped if journal else None,
                expired=journal.expired if journal else None,
                accuracy=known.accuracy if known else None,
                loss=known.loss if known else None,
            )
        )
    return rows


@dataclass(frozen=True)
class _Ending:
    end: str | None = None
    end_planned: bool | None = None
    end_s: float | None = None


def _ending(node: NodeResult) -> _Ending:
    journal, death = node.journal, node.death
    said = journal.end if journal else None
    if journal is not None and said is not None:
        planned = node.state is State.FINISHED if said in ("crashed", "left") else None
        return _Ending(said, planned, journal.last_t)
    if death is None:
        return _Ending()
    return _Ending("crashed" if death.planned else "died", death.planned, death.t)


def _worked_s(journal: JournalResult) -> float:
    return journal.last_t if journal.worked_t is None else journal.worked_t
