"""Results as short tables for people: a few columns, units in the heads, no more digits than matter.

Takes summaries and rows, gives columns and cells of text; touches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from testbed.collect.details import NodeRow, RoundRow
from testbed.collect.grouping import Estimate, Group
from testbed.collect.spread import Spread
from testbed.collect.summary import RunSummary

Columns = tuple[str, ...]
Rows = list[tuple[str, ...]]
NOTHING = "–"


def run_table(runs: Sequence[RunSummary]) -> tuple[Columns, Rows]:
    """One line a run, within 100 columns unless names are long; about the target only where one was given."""
    target = next((run.target for run in runs if run.target is not None), None)
    middle = ("rounds × s",) if target is None else ()
    last = ("loss",) if target is None else (f"s to {target:g}", f"B to {target:g}")
    columns: Columns = ("run", "algorithm", "nodes", *middle, "time s", "sent", "accuracy", *last)
    rows: Rows = []
    for run in runs:
        rounds = f"{_text(run.rounds)} × {number(run.round_s.median)}"
        rows.append(
            (
                run.run_id,
                _text(run.algorithm),
                f"{run.nodes.finished}/{_text(run.nodes.planned)}",
                *((rounds,) if target is None else ()),
                number(run.wall_clock_s),
                data(run.bytes.sent),
                plus_minus(run.accuracy.mean, run.accuracy.std),
                *(
                    (short(run.loss.mean),)
                    if target is None
                    else (number(run.time_to_target_s), data(run.bytes_to_target))
                ),
            )
        )
    if all(run.algorithm is not None and run.algorithm in run.run_id for run in runs):  # the name says it already
        return columns[:1] + columns[2:], [row[:1] + row[2:] for row in rows]
    return columns, rows


def group_table(groups: Sequence[Group]) -> tuple[Columns, Rows]:
    """Every number with half of its 95 % interval."""
    columns: Columns = ("algorithm", "topology", "runs", "time s", "sent", "accuracy", "loss")
    rows: Rows = [
        (
            _text(group.algorithm),
            _text(group.topology),
            str(len(group.runs)),
            _interval(group.wall_clock_s),
            data(group.sent_bytes.mean),
            _interval(group.accuracy),
            _interval(group.loss),
        )
        for group in groups
    ]
    target = next((group.target for group in groups if group.target is not None), None)
    if target is None:
        return columns, rows
    reached = [(f"{group.time_to_target_s.n}/{len(group.runs)}", _interval(group.time_to_target_s)) for group in groups]
    more = (f"reached {target:g}", f"s to {target:g}")
    return columns + more, [row + each for row, each in zip(rows, reached, strict=True)]


def node_table(nodes: Sequence[NodeRow]) -> tuple[Columns, Rows]:
    columns: Columns = (
        *("run", "node", "end", "rounds", "time s", "train s", "wait s"),
        *("sent", "received", "dropped", "accuracy", "loss"),
    )
    rows: Rows = [
        (
            node.run_id,
            node.node,
            node.end or node.state,
            str(node.rounds),
            number(node.wall_clock_s),
            number(node.train_s),
            number(node.wait_s),
            data(_sum(node.payload_sent, node.metadata_sent, node.control_sent)),
            data(_sum(node.payload_received, node.metadata_received, node.control_received)),
            _text(_sum(node.dropped, node.expired)),
            short(node.accuracy),
            short(node.loss),
        )
        for node in nodes
    ]
    return _without_run(columns, rows)


def round_table(rounds: Sequence[RoundRow]) -> tuple[Columns, Rows]:
    columns: Columns = ("run", "round", "nodes", "over at s", "round s", "sent", "training loss", "accuracy", "loss")
    rows: Rows = [
        (
            each.run_id,
            str(each.round),
            str(each.nodes),
            number(each.last_t),
            number(each.round_s.median),
            data(each.sent_bytes),
            plus_minus(each.training_loss.mean, each.training_loss.std),
            _spread(each.accuracy),
            _spread(each.loss),
        )
        for each in rounds
    ]
    return _without_run(columns, rows)


def number(value: float | None) -> str:
    """Four significant digits, and all of those before the point."""
    if value is None:
        return NOTHING
    if abs(value) >= 1e15:
        return f"{value:.3e}"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:#.4g}"


def data(size_bytes: float | None) -> str:
    """A size with three significant digits."""
    if size_bytes is None:
        return NOTHING
    size, units = float(size_bytes), iter(("B", "kB", "MB", "GB", "TB", "PB"))
    unit = next(units)
    while size >= 999.5 and unit != "PB":
        size, unit = size / 1000, next(units)
    digits = 0 if unit == "B" or size >= 99.95 else 1 if size >= 9.995 else 2
    return f"{size:.{digits}f} {unit}"


def plus_minus(value: float | None, more_or_less: float | None) -> str:
    """Both with the digits that the larger one needs."""
    if value is None or more_or_less is None:
        return short(value)
    digits = _decimals(max(abs(value), more_or_less))
    return f"{value:.{digits}f} ± {more_or_less:.{digits}f}" if digits >= 0 else f"{value:.2e} ± {more_or_less:.2e}"


def short(value: float | None) -> str:
    """Three decimals, and fewer of a large number."""
    if value is None:
        return NOTHING
    digits = _decimals(abs(value))
    return f"{value:.{digits}f}" if digits >= 0 else f"{value:.2e}"


def _decimals(size: float) -> int:
    """Negative for what is too long to write out."""
    return next((digits for limit, digits in ((10, 3), (100, 2), (1000, 1), (1e9, 0)) if size < limit), -1)


def _spread(values: Spread) -> str:
    return plus_minus(values.mean, values.std)


def _interval(values: Estimate) -> str:
    half = None if values.high is None or values.mean is None else values.high - values.mean
    return plus_minus(values.mean, half)


def _text(value: object) -> str:
    return NOTHING if value is None else str(value)


def _sum(*parts: int | None) -> int | None:
    return None if None in parts else sum(part or 0 for part in parts)


def _without_run(columns: Columns, rows: Rows) -> tuple[Columns, Rows]:
    """A column that says the same in every line is left out."""
    if len({row[0] for row in rows}) > 1:
        return columns, rows
    return columns[1:], [row[1:] for row in rows]
