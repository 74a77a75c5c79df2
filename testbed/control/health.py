"""Whether a run in real time was what its plan says: `summary.json`.

Takes what the engine and the nodes counted, gives a `Health`; touches that file. The machine's load average decides
nothing: only what came too late, or was lost, does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from testbed.control.outcome import Outcome
from testbed.journal import CannotWrite
from testbed.protocol.fabric import Lateness
from testbed.protocol.nodes import Overrun

SCHEMA = 1
FILE = "summary.json"
MOST_LATE_SHARE = 0.05
"""Of all training (or gradients), this much may be later than the plan has it; waiting hides what is rarer."""
WORST_LATE_STEPS = 20.0
"""And none by more than so many local steps, or than `WORST_LATE_S` where steps are short."""
WORST_LATE_S = 1.0
_FEWEST_WORKS = 100
"""With fewer, a few accidents are more than the share."""
_MOST_NAMED = 3


class Computing(msgspec.Struct, frozen=True):
    """All nodes together; of one that was killed, up to what it said last, at most a second before."""

    works: int
    late: int
    worst_late_s: float


class Summary(msgspec.Struct, frozen=True):
    """What is known of a run besides its journals."""

    schema: int
    run_id: str
    health: str
    """`valid`, `overloaded` or `broken`."""
    why: tuple[str, ...]
    """Of being overloaded."""
    remarks: tuple[str, ...]
    reason: str
    t: float
    """Emulated seconds."""
    time_scale: float
    """Real seconds of each of them."""
    ready_s: float | None
    """Real seconds from the command to the start barrier; None when it was not reached."""
    real_s: float
    finished: int
    failed: tuple[str, ...]
    broken: tuple[str, ...]
    computing: Computing
    tx_dropped: int
    lateness: Lateness | None
    """Of the engine's packets, in emulated time."""
    device_waits: Lateness | None = None
    """What it added to frames' delays that the engine did not read them at once, in emulated time."""


def computing_of(overruns: Mapping[str, Overrun]) -> Computing:
    told = overruns.values()
    return Computing(
        sum(each.steps for each in told),
        sum(each.late for each in told),
        round(max((each.worst_late_s for each in told), default=0.0), 4),
    )


def why_overloaded(engine: Sequence[str], overruns: Mapping[str, Overrun], ms_per_step: float) -> tuple[str, ...]:
    """In words; nothing when all is well."""
    why = list(engine)
    computing = computing_of(overruns)
    if computing.late > max(MOST_LATE_SHARE * computing.works, MOST_LATE_SHARE * _FEWEST_WORKS):
        share = computing.late / computing.works
        why.append(f"{share:.1%} of all training took longer than planned (limit {MOST_LATE_SHARE:.0%})")
    limit_s = max(WORST_LATE_S, WORST_LATE_STEPS * ms_per_step / 1000)
    if computing.worst_late_s > limit_s:
        why.append(f"training was late by up to {computing.worst_late_s:.2f} s (limit {limit_s:.2f} s)")
    lossy = {name: each.tx_dropped for name, each in overruns.items() if each.tx_dropped}
    if lossy:
        named = ", ".join(list(lossy)[:_MOST_NAMED]) + (" …" if len(lossy) > _MOST_NAMED else "")
        why.append(f"{sum(lossy.values())} packets were lost before the network, at {named}")
    return tuple(why)


def health_of(outcome: Outcome) -> str:
    """`broken`: it never began, or what its nodes need was gone before its end; nobody can say more of its numbers."""
    if outcome.broken or outcome.last is None:
        return "broken"
    return "overloaded" if outcome.overloaded else "valid"


def emulated(lateness: Lateness, time_scale: float) -> Lateness:
    """What was counted in real time, as those in the emulated network would see it."""
    return Lateness(
        lateness.count,
        *(round(each / time_scale, 3) for each in (lateness.p50_ms, lateness.p99_ms, lateness.max_ms)),
    )


def summary_of(
    run_id: str,
    outcome: Outcome,
    overruns: Mapping[str, Overrun],
    *,
    time_scale: float = 1.0,
    ready_s: float | None,
    real_s: float,
    lateness: Lateness | None,
    device_waits: Lateness | None = None,
) -> Summary:
    return Summary(
        schema=SCHEMA,
        run_id=run_id,
        health=health_of(outcome),
        why=outcome.overloaded,
        remarks=outcome.remarks,
        reason=outcome.reason,
        t=round(outcome.t, 6),
        time_scale=time_scale,
        ready_s=None if ready_s is None else round(ready_s, 3),
        real_s=round(real_s, 3),
        finished=outcome.finished,
        failed=tuple(each.node for each in outcome.failures),
        broken=outcome.broken,
        computing=computing_of(overruns),
        tx_dropped=sum(each.tx_dropped for each in overruns.values()),
        lateness=lateness,
        device_waits=device_waits,
    )


def write_summary(folder: Path, summary: Summary) -> None:
    """Whole or not at all."""
    part = folder / f".{FILE}.tmp"
    try:
        part.write_bytes(msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n")
        os.replace(part, folder / FILE)
    except OSError as problem:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise CannotWrite(f"cannot write {folder / FILE}: {problem.strerror or problem}") from problem
