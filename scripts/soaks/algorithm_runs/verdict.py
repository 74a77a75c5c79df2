"""Judges a run by its outcome and its files: gives words for all that is wrong; reads the run directory."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator

import msgspec

from soaks.algorithm_runs.story import Story
from testbed.catalogue.algorithms import ALGORITHMS
from testbed.catalogue.exchanges import WithPeers
from testbed.control.outcome import FAILED, FINISHED, TIME, Outcome
from testbed.errors import ExitCode
from testbed.plan.model import RunPlan
from testbed.records import AnyRecord, End, Evaluation, Event, Round
from testbed.rundir import RunDirectory

_DECODER = msgspec.json.Decoder(AnyRecord)
NEVER_TAKEN = "never-taken"
BROKEN_OFF = "refused: foreign-protocol"
_BAD_NOTES = frozenset(
    {NEVER_TAKEN, "not-awaited", "state-lost", "mailbox-full", "refused", "not-understood", "not-done", "broken"}
)
_REAL_S = 60.0
"""What real processes may take besides, on a busy machine: to end, to be stopped, to be found dead."""
_MISSING = re.compile(r"in vain|sent no|did not hand on")
"""In the failure of a node that gives up because of another one."""


def wrong_in(story: Story, plan: RunPlan, directory: RunDirectory, outcome: Outcome) -> Iterator[str]:
    """All that is not as it should be, in any runtime."""
    yield from _wrong_end(story, plan, outcome)
    lives: list[list[AnyRecord]] = []
    for name in directory.node_names():
        node = directory.node(name)
        if node.log.is_file() and "Traceback" in node.log.read_text(errors="replace") and not story.may_miss:
            yield f"a traceback in the log of {name}"
        if node.journal.is_file():
            found, torn = _records(node.journal.read_bytes())
            lives.append(found)
            excused = _excused(story, plan, found)
            yield from (f"{name}: {each}" for each in (*torn, *_wrong_records(found, excused)))
            yield from (f"{name}: {each}" for each in _wrong_rounds(story, plan, outcome, name, found))
    events, torn = _records(directory.events.read_bytes())
    yield from torn
    yield from (f"{each.what}: {each.detail}" for each in _notes(events))
    yield from _wrong_bytes(story, lives)


def _wrong_end(story: Story, plan: RunPlan, outcome: Outcome) -> Iterator[str]:
    longest = story.longest_s(plan) + (0.0 if plan.runtime == "sim" else _REAL_S * plan.time_scale)
    if outcome.t > longest:
        yield f"it lasted {outcome.t:.1f} emulated s, at most {longest:.1f} were expected"
    for each in outcome.failures:
        if not (story.may_miss and _MISSING.search(each.failure.message)):
            yield f"{each.node} failed: {each.failure.message} ({each.failure.file}:{each.failure.line})"
    if outcome.broken:
        yield f"broken: {'; '.join(outcome.broken)}"
    if outcome.reason not in (FINISHED, TIME, FAILED) or (outcome.reason == FAILED and not outcome.failures):
        yield f"it ended with {outcome.reason}"
    codes = {ExitCode.OK, ExitCode.NOT_AS_ASKED} | ({ExitCode.NODE_FAILED} if outcome.failures else set())
    if outcome.exit_code not in codes:
        yield f"exit code {outcome.exit_code}"


def _records(text: bytes) -> tuple[list[AnyRecord], list[str]]:
    """Records, and words about lines that are none; the last line of a node that was killed may be torn."""
    found: list[AnyRecord] = []
    torn: list[str] = []
    lines = text.split(b"\n")
    for number, line in enumerate(lines, start=1):
        try:
            if line:
                found.append(_DECODER.decode(line))
        except msgspec.DecodeError:
            if number < len(lines):
                torn.append(f"line {number} of the journal cannot be read")
    return found, torn


def _excused(story: Story, plan: RunPlan, records: list[AnyRecord]) -> frozenset[str]:
    """Notes, by their beginning, that are as they should be in this node's journal."""
    excused = set()
    between = plan.experiment.algorithm.options.get("steps_between", 1)
    if isinstance(between, int) and sum(isinstance(each, Round) for each in records) < between:
        excused.add(NEVER_TAKEN)  # it never came to its first averaging
    if story.network.away and plan.runtime != "sim":
        excused.add(BROKEN_OFF)  # a node went while it connected
    return frozenset(excused)


def _notes(records: list[AnyRecord], excused: frozenset[str] = frozenset()) -> Iterator[Event]:
    for each in records:
        if not isinstance(each, Event) or each.what not in _BAD_NOTES:
            continue
        if not f"{each.what}: {each.detail}".startswith(tuple(excused)):
            yield each


def _wrong_records(records: list[AnyRecord], excused: frozenset[str]) -> Iterator[str]:
    yield from (f"{each.what}: {each.detail}" for each in _notes(records, excused))
    for each in records:
        match each:
            case Round(loss=float(loss)) | Evaluation(loss=float(loss)) if not math.isfinite(loss):
                yield f"the loss of round {each.round} is not finite"
            case Round(sent=sent, received=received):
                if min(*msgspec.structs.astuple(sent), *msgspec.structs.astuple(received)) < 0:
                    yield f"less than nothing was sent or received in round {each.round}"


def _wrong_rounds(story: Story, plan: RunPlan, outcome: Outcome, name: str, records: list[AnyRecord]) -> Iterator[str]:
    """Where nothing is drawn that ends a node early, each does all rounds."""
    facts, stop = ALGORITHMS[story.algorithm], plan.experiment.stop
    is_of_all = isinstance(facts.exchange(plan.experiment.algorithm.options), WithPeers)
    if outcome.reason != FINISHED or not is_of_all or stop.rounds is None or story.network.away:
        return
    ends = [each for each in records if isinstance(each, End)]
    if len(ends) != 1 or (ends[0].reason, ends[0].rounds) != ("finished", stop.rounds):
        yield f"{name} ended with {json.dumps([[each.reason, each.rounds] for each in ends])}, not after all rounds"


def _wrong_bytes(story: Story, journals: list[list[AnyRecord]]) -> Iterator[str]:
    """Bytes received are bytes sent. A node that crashed has not said what it sent last."""
    if story.network.away:
        return
    ends = [each for records in journals for each in records if isinstance(each, End)]
    sent = sum(each.sent.payload + each.sent.metadata + each.sent.control for each in ends)
    received = sum(each.received.payload + each.received.metadata + each.received.control for each in ends)
    if received > sent:
        yield f"{received} bytes were received, and {sent} sent"
    if sum(each.received.messages for each in ends) > sum(each.sent.messages for each in ends):
        yield "more messages were received than sent"
