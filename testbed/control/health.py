"""Whether a run in real time was what its plan says: `summary.json`.

Takes what the engine and the nodes counted, gives a `Summary`; touches that file. The machine's load average decides
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
from testbed.plan.model import RunPlan
from testbed.protocol.fabric import Lateness
from testbed.protocol.nodes import Overrun

SCHEMA = 1
FILE = "summary.json"
MOST_ADDED_SHARE = 0.02
"""Of the run's emulated time, so much may computing that took longer than planned have added to that of any node."""
_MOST_NAMED = 3


class Computing(msgspec.Struct, frozen=True):
    """All nodes together; of one that was killed, up to what it said last, at most a second before."""

    works: int
    late: int
    """Works that ended more than two milliseconds of real time after they were due."""
    worst_late_s: float
    added_s: float
    """By how much late computing has lengthened the emulated time of the node with the most of it."""
    added_share: float
    """The same, as a part of the run's emulated time; `MOST_ADDED_SHARE` is the limit."""
    node: str | None
    """Which one that is; none where nothing was late."""


class Setting(msgspec.Struct, frozen=True):
    """What the run used, and what the experiment had asked for; the same unless this machine could not."""

    ms_per_step: float
    asked_ms_per_step: float | None
    congestion: str
    asked_congestion: str | None


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
    setting: Setting
    computing: Computing
    tx_dropped: int
    lateness: Lateness | None
    """Of the engine's packets, in emulated time."""
    device_waits: Lateness | None = None
    """What it added to frames' delays that the engine did not read them at once, in emulated time."""
    runtime_choice: Mapping[str, str] | None = None
    """How the runtime was chosen, as in the plan."""
    data_plane: str | None = None
    """Which of the fabric's carried the packets: `native` or `python`; None without a fabric."""


def computing_of(overruns: Mapping[str, Overrun], t: float) -> Computing:
    """Of a run that has lasted until `t`, in emulated seconds."""
    told = overruns.values()
    node = max(overruns, key=lambda name: overruns[name].added_s, default=None)
    added_s = 0.0 if node is None else overruns[node].added_s
    return Computing(
        works=sum(each.steps for each in told),
        late=sum(each.late for each in told),
        worst_late_s=round(max((each.worst_late_s for each in told), default=0.0), 4),
        added_s=round(added_s, 4),
        added_share=round(added_s / t, 5) if t > 0.0 else 0.0,
        node=node if added_s > 0.0 else None,
    )


def of_all_lives(told: Mapping[tuple[int, int], Overrun], names: Sequence[str]) -> dict[str, Overrun]:
    """What the lives of each node have told together, by name; `told` is by rank and process id."""
    found: dict[str, Overrun] = {}
    for (rank, _), now in sorted(told.items()):
        before = found.get(names[rank])
        found[names[rank]] = now if before is None else _both(before, now)
    return found


def _both(before: Overrun, now: Overrun) -> Overrun:
    return Overrun(
        before.steps + now.steps,
        before.late + now.late,
        max(before.worst_late_s, now.worst_late_s),
        before.tx_dropped + now.tx_dropped,
        before.added_s + now.added_s,
    )


def setting_of(plan: RunPlan) -> Setting:
    asked, congestion = plan.asked, plan.experiment.network.congestion
    return Setting(
        ms_per_step=plan.ms_per_step,
        asked_ms_per_step=None if asked is None else asked.ms_per_step,
        congestion=congestion,
        asked_congestion=None if asked is None else asked.congestion,
    )


def why_overloaded(engine: Sequence[str], overruns: Mapping[str, Overrun], t: float) -> tuple[str, ...]:
    """In words, of a run that has lasted until `t`; nothing when all is well."""
    why = list(engine)
    computing = computing_of(overruns, t)
    if computing.added_share > MOST_ADDED_SHARE:
        why.append(
            f"computing that took longer than planned has added {computing.added_s:.3g} s to {computing.node}'s time: "
            f"{computing.added_share:.1%} of the run (limit {MOST_ADDED_SHARE:.0%})"
        )
    lossy = {name: each.tx_dropped for name, each in overruns.items() if each.tx_dropped}
    if lossy:
        named = ", ".join(list(lossy)[:_MOST_NAMED]) + (" …" if len(lossy) > _MOST_NAMED else "")
        why.append(f"{sum(lossy.values())} packets were lost before the network, at {named}")
    return tuple(why)


def health_of(outcome: Outcome) -> str:
    """`broken`: it never began, or what its nodes need was gone before its end: its numbers mean nothing."""
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
    plan: RunPlan,
    outcome: Outcome,
    overruns: Mapping[str, Overrun],
    *,
    ready_s: float | None,
    real_s: float,
    lateness: Lateness | None,
    device_waits: Lateness | None = None,
    data_plane: str | None = None,
) -> Summary:
    return Summary(
        schema=SCHEMA,
        run_id=plan.run_id,
        health=health_of(outcome),
        why=outcome.overloaded,
        remarks=outcome.remarks,
        reason=outcome.reason,
        t=round(outcome.t, 6),
        time_scale=plan.time_scale,
        ready_s=None if ready_s is None else round(ready_s, 3),
        real_s=round(real_s, 3),
        finished=outcome.finished,
        failed=tuple(each.node for each in outcome.failures),
        broken=outcome.broken,
        setting=setting_of(plan),
        computing=computing_of(overruns, outcome.t),
        tx_dropped=sum(each.tx_dropped for each in overruns.values()),
        lateness=lateness,
        device_waits=device_waits,
        runtime_choice=None if plan.runtime_choice is None else plan.runtime_choice.model_dump(),
        data_plane=data_plane,
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
