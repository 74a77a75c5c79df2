"""The records of journals: those of a node, and those of control about the run as a whole.

Takes records, gives lines of JSON; touches nothing. A journal is append-only, one record a line. Nothing in it depends
on the host, the run's name or the time of day, so two runs of one plan in virtual time can be compared byte for byte.
`t` is emulated seconds since the start barrier.

Counts of bytes and messages are those since the node's previous `round` record. `end` has the totals since the node's
`start`, and so includes what came after the last full round.
"""

from __future__ import annotations

from typing import Union

import msgspec

SCHEMA = 1
"""Raised when a reader of the old contract would misunderstand the new one."""


class Record(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower, omit_defaults=False):
    """Base of all records; the field `type` tells them apart."""

    t: float


class Build(msgspec.Struct, frozen=True):
    """What results depend on besides the plan: two journals are comparable byte for byte if these are equal."""

    testbed: str
    torch: str
    instructions: str
    """The instruction set that torch computes with, such as AVX2."""


class Count(msgspec.Struct, frozen=True):
    """Bytes at the level of the application, in one direction."""

    payload: int = 0
    """Values of models, gradients or samples."""
    metadata: int = 0
    """What is needed to understand the payload: headers, indices, seeds, degrees."""
    control: int = 0
    """Messages without a payload: requests to a peer sampler, acknowledgements of an algorithm's own."""
    messages: int = 0


class Phases(msgspec.Struct, frozen=True):
    """Where a round's emulated seconds went."""

    train: float = 0.0
    encode: float = 0.0
    wait: float = 0.0
    aggregate: float = 0.0
    evaluate: float = 0.0


class Start(Record, frozen=True):
    """A node begins; a second one in the same journal is a node that came back."""

    schema: int
    node: str
    rank: int
    roles: tuple[str, ...]
    learner: int | None
    """Position among the learners, which selects its part of the data. None for a node that does not learn."""
    samples: int
    parameters: int
    algorithm: str
    seed: int
    build: Build
    rejoin: str | None = None
    """For a node that came back: whether it begins with a `fresh` model or its `last` snapshot."""
    round: int = 0
    """The node's first round."""


class Round(Record, frozen=True):
    """One round is over; `t` is its end."""

    round: int
    loss: float | None
    """Mean training loss over the round's local steps; None when it did not train."""
    phases: Phases
    sent: Count
    received: Count
    steps: int = 0
    """Local steps done."""
    aggregated: int = 0
    """Models of other nodes that were mixed into this one's."""
    dropped: int = 0
    """Messages that were dropped or withdrawn before they had left."""
    expired: int = 0
    """Messages that came too late, or whose wait was given up."""
    staleness_mean: float = 0.0
    """By how many rounds the aggregated models were older than this round."""
    staleness_max: int = 0


class Evaluation(Record, frozen=True):
    """A model was evaluated; `t` and `round` are those of the model, whenever the evaluation was done."""

    round: int
    accuracy: float | None
    """0 to 1. For ratings: the share of correct predictions after rounding."""
    loss: float
    """Mean loss over the samples; for ratings the root of the mean squared error."""
    samples: int
    on: str
    """Which data: `test`, or `own-test` where every node has test data of its own."""


class Event(Record, frozen=True):
    """Something worth knowing happened."""

    what: str
    """A word that stays the same, such as `peer-missing` or `link-changed`."""
    detail: str = ""
    node: str | None = None
    """In control's log: the node that the event is about."""
    planned_t: float | None = None
    """In control's log: the planned time of the event."""


class Failure(msgspec.Struct, frozen=True):
    """Why a node could not go on."""

    message: str
    file: str | None = None
    """The name of the file, without its folder."""
    line: int | None = None


class End(Record, frozen=True):
    """A node is done. The reason is `finished`, `stopped`, `left`, `crashed`, `failed` or `interrupted`."""

    reason: str
    rounds: int
    steps: int
    sent: Count
    received: Count
    failure: Failure | None = None


class Average(Record, frozen=True):
    """In control's log: the average of all learners' models after a round."""

    round: int
    nodes: int
    accuracy: float | None
    loss: float | None
    consensus_distance: float
    """The root of the mean, over nodes, of the squared distance to the average."""


class Over(Record, frozen=True):
    """In control's log, last: the run is over, and why (`finished`, `time`, `accuracy`, `failed`, `interrupted`)."""

    reason: str
    finished: int
    failed: int


AnyRecord = Union[Start, Round, Evaluation, Event, End, Average, Over]  # noqa: UP007 - msgspec reads it at run time

_ENCODER = msgspec.json.Encoder()


def line(record: AnyRecord) -> bytes:
    """A record as one line, newline included."""
    return _ENCODER.encode(record) + b"\n"
