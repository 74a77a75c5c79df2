"""The fields of the records that a summary needs, with bounds on their values.

Takes nothing, gives types, touches nothing. `testbed.records` is the contract, and the types here have the same names;
fields left out here are skipped while decoding, which takes half the time. The bounds keep one corrupt digit from
overflowing a sum. Numbers that JSON cannot hold are written as null.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
Whole = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Bounded = Annotated[float, msgspec.Meta(ge=-1e100, le=1e100)]

JOURNAL_TYPES = frozenset({"start", "round", "evaluation", "event", "end"})
CONTROL_TYPES = frozenset({"event", "average", "over"})


class Count(msgspec.Struct, frozen=True, gc=False):
    payload: Whole = 0
    metadata: Whole = 0
    control: Whole = 0
    messages: Whole = 0


class Phases(msgspec.Struct, frozen=True, gc=False):
    train: Seconds = 0.0
    encode: Seconds = 0.0
    wait: Seconds = 0.0
    aggregate: Seconds = 0.0
    evaluate: Seconds = 0.0


class PartialRecord(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower, gc=False):
    t: Seconds


class Start(PartialRecord, frozen=True, gc=False):
    schema: int
    rank: Whole | None = None
    roles: tuple[str, ...] = ()
    learner: int | None = None
    round: Whole = 0


class Round(PartialRecord, frozen=True, gc=False):
    round: Whole
    loss: Bounded | None
    phases: Phases
    sent: Count
    received: Count
    steps: Whole = 0
    aggregated: Whole = 0
    dropped: Whole = 0
    expired: Whole = 0


class Evaluation(PartialRecord, frozen=True, gc=False):
    round: Whole
    accuracy: Share | None
    loss: Bounded | None
    on: str


class Event(PartialRecord, frozen=True, gc=False):
    what: str
    detail: str = ""
    node: str | None = None
    planned_t: Seconds | None = None


class Failure(msgspec.Struct, frozen=True, gc=False):
    message: str
    file: str | None = None
    line: int | None = None


class End(PartialRecord, frozen=True, gc=False):
    reason: str
    sent: Count
    received: Count
    failure: Failure | None = None


class Average(PartialRecord, frozen=True, gc=False):
    round: Whole
    nodes: Whole
    accuracy: Share | None
    loss: Bounded | None
    consensus_distance: Bounded | None


class Over(PartialRecord, frozen=True, gc=False):
    reason: str
    failed: Whole = 0


JournalRecord = Start | Round | Evaluation | Event | End
ControlRecord = Event | Average | Over
