"""Notes on what to know about a run before trusting its numbers.

Takes a `RunResult`, gives sentences; touches nothing. Only notes that leave the run's validity unknown make it
incomplete.
"""

from __future__ import annotations

from collections.abc import Iterator

from testbed.collect.health import BROKEN, OVERLOADED, UNKNOWN, VALID, RunHealth, WireTraffic
from testbed.collect.plan_head import PlanHead
from testbed.collect.problems import Problem, counted, named, shortened
from testbed.collect.run import RunResult, representative_average
from testbed.collect.spread import quantiles

_FALLBACK = "fallback"


def notes(result: RunResult, judged: RunHealth, by_hand: tuple[str, ...], wire: WireTraffic) -> list[Problem]:
    what_ran = (*_not_real(result.plan), *_by_hand(by_hand), *_instead(result.plan))
    texts = (*what_ran, *_not_mixed(result), *_average_of_fewer(result), *_overstated(result, judged, wire))
    return [*_not_valid(result, judged), *(Problem(text, incomplete=False) for text in texts)]


def _not_valid(result: RunResult, judged: RunHealth) -> Iterator[Problem]:
    """The run was overloaded or broken, or its health is unknown."""
    if judged.health == OVERLOADED:
        why = "; ".join(judged.why) or "nothing says why"
        yield Problem(f"overloaded, so no time of it can be trusted: {why}", incomplete=False)
    elif judged.health == BROKEN:
        yield Problem("its health is broken: it never began, or a process that all nodes need was gone before its end")
    elif judged.health == UNKNOWN and result.plan.is_judged and result.log.over is not None:
        yield Problem("no summary.json that can be read: whether this run was valid is unknown")


def _not_real(plan: PlanHead) -> Iterator[str]:
    """Virtual time was a fallback, not a choice."""
    choice = plan.runtime_choice
    if choice.how == _FALLBACK:
        yield f"in virtual time, since real learners could not run where it was deployed: {shortened(choice.why or '')}"


def _by_hand(kinds: tuple[str, ...]) -> Iterator[str]:
    if kinds:
        yield f"something was done to it by hand ({named(kinds)}): it is no repetition of any other run"


def _instead(plan: PlanHead) -> Iterator[str]:
    """Settings of the run that differ from those of its experiment."""
    used_ms, asked_ms = plan.ms_per_step, plan.asked_ms_per_step
    if used_ms is not None and asked_ms is not None and used_ms > asked_ms:
        yield f"a local step took {used_ms:g} ms instead of {asked_ms:g} ms: the machine could not train faster"
    if None not in (plan.congestion, plan.asked_congestion) and plan.congestion != plan.asked_congestion:
        is_scaled = plan.time_scale not in (None, 1.0)
        why = f"time scale {plan.time_scale:g}" if is_scaled else "as in the real run that this plan is of"
        yield f"TCP's congestion control was {plan.congestion} instead of {plan.asked_congestion}: {why}"


def _overstated(result: RunResult, judged: RunHealth, wire: WireTraffic) -> Iterator[str]:
    """Nodes whose journals claim more received bytes than the fabric carried; learners write their own journals."""
    if judged.health not in (VALID, OVERLOADED) or result.log.over is None:
        return  # the fabric may not have counted to the end
    carried = {node.name: node.bytes_out for node in wire.nodes}
    claims = [
        (node.name, node.journal.received.bytes, carried[node.name])
        for node in result.nodes
        if node.journal is not None and node.name in carried and node.journal.received.bytes > carried[node.name]
    ]
    if claims:
        name, claimed, there = claims[0]
        others = f", and so do {counted(len(claims) - 1, 'other')}" if len(claims) > 1 else ""
        yield (
            f"{name} claims to have received {claimed} bytes, and the fabric carried {there} to it{others}: "
            "what such a node says of itself is not to be trusted"
        )


def _not_mixed(result: RunResult) -> Iterator[str]:
    """Models were sent, but no node mixed any in."""
    journals = result.journals
    sent = sum(journal.sent.messages for journal in journals if journal.sent.payload)
    if not sent or not any(journal.round_count for journal in journals):
        return
    if any(journal.aggregated for journal in journals):
        return
    received = sum(journal.received.messages for journal in journals)
    too_late = sum(journal.dropped + journal.expired for journal in journals)
    what = f"{sent} messages were sent ({received} received, {too_late} dropped or expired) and no model was mixed in: "
    if 2 * received >= sent:
        yield f"{what}the algorithm took none of those that came"
        return
    steps = sum(journal.steps for journal in journals)
    train_s = sum(journal.phases.train_s for journal in journals)
    round_s = quantiles(length for journal in journals for length in journal.rounds.duration_s.tolist()).median
    step = f"a step takes {_ms(train_s / steps)} ms" if steps else "no node trained"
    length = "" if round_s is None else f", a round {_ms(round_s)} ms"
    yield f"{what}{step}{length}; if messages take longer, see compute.ms_per_step"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f}" if seconds >= 0.1 else f"{seconds * 1000:.3g}"


def _average_of_fewer(result: RunResult) -> Iterator[str]:
    """The averaged model shown is not the run's last one."""
    best = representative_average(result)
    last = result.log.averages[-1] if result.log.averages else None
    if best is None or last is None or best is last:
        return
    yield (
        f"averaged_model is of round {best.round} and {counted(best.nodes, 'node')}; "
        f"the last one, of round {last.round}, is of {last.nodes} only"
    )
