"""Results as short tables for a terminal: few columns, units in the headers, only significant digits.

Takes summaries and rows, gives columns, cells and lines of text; touches nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.collect.details import NodeRow, RoundRow
from testbed.collect.grouping import MeanEstimate, RunGroup
from testbed.collect.problems import named
from testbed.collect.spread import Spread
from testbed.collect.summary import RunSummary
from testbed.units import size_for_people

Columns = tuple[str, ...]
Row = tuple[str, ...]
NOTHING = "–"
EMULATED = "emulated s"
_EMULATED_NOTE = f"all seconds are emulated; {EMULATED}: until the end of the node's last round"
_OVER_NODES = "±: standard deviation over the nodes of a run"


@dataclass(frozen=True)
class TextTable:
    """A table and its footnotes."""

    columns: Columns
    rows: list[Row]
    least: Columns = ()
    """Columns to leave out where there is no room for all, the least important first."""
    notes: tuple[str, ...] = ()
    wrapped: Columns = ()
    """Columns whose text may be wrapped between words; others may not."""


def run_table(runs: Sequence[RunSummary]) -> TextTable:
    """One line for each run; columns about a target only where one was given."""
    target = next((run.target for run in runs if run.target is not None), None)
    last = ("loss",) if target is None else (f"s to {target:g}", f"B to {target:g}")
    columns: Columns = ("run", "algo", "runtime", "health", "nodes", "rounds", "round s", EMULATED, "out", "acc", *last)
    rows: list[Row] = []
    for run in runs:
        reached = (number(run.time_to_target_s), data(run.bytes_to_target))
        rows.append(
            (
                run.run_id,
                _text(run.algorithm),
                _text(run.runtime),
                run.health,
                f"{run.nodes.finished}/{_text(run.nodes.planned)}",
                _rounds(run),
                number(run.round_s.median),
                number(run.wall_clock_s),
                data(run.bytes.sent),
                _over_nodes(run.accuracy, run.evaluated.nodes),
                *((short(run.loss.mean),) if target is None else reached),
            )
        )
    if any(run.nodes.crashed for run in runs):
        place = columns.index("nodes") + 1
        columns = (*columns[:place], "crashed", *columns[place:])
        rows = [
            (*row[:place], _text(run.nodes.crashed or None), *row[place:]) for row, run in zip(rows, runs, strict=True)
        ]
    if len({run.data_plane for run in runs} - {None}) > 1:  # a slower one carries less
        place = columns.index("runtime") + 1
        columns = (*columns[:place], "data plane", *columns[place:])
        rows = [(*row[:place], _text(run.data_plane), *row[place:]) for row, run in zip(rows, runs, strict=True)]
    if all(run.algorithm is not None and run.algorithm in run.run_id for run in runs):  # the run's name has it
        columns, rows = columns[:1] + columns[2:], [row[:1] + row[2:] for row in rows]
    if all(run.health == "valid" for run in runs):  # otherwise never left out
        place = columns.index("health")
        columns, rows = columns[:place] + columns[place + 1 :], [row[:place] + row[place + 1 :] for row in rows]
    notes = _notes(rows, f"{EMULATED}: until the end of the last round", "round s: the median round", _OVER_NODES)
    late = [run.late_share for run in runs if run.late_share is not None]
    if late:
        notes += (f"computing that took longer than planned added {max(late):.1%} at most to a node's time",)
    if target is not None:
        notes += _how_often(runs)
    return TextTable(
        columns, rows, ("runtime", "round s", "loss", "rounds", "algo", "nodes", "crashed", "out", EMULATED), notes
    )


def group_table(groups: Sequence[RunGroup], runs: Sequence[RunSummary]) -> TextTable:
    """One line for each group: numbers with half of their 95 % interval, and what distinguishes the groups."""
    several = len(groups) > 1
    columns: Columns = ("group", "runs") if several else ("algo", "topology", "runs")
    columns += (EMULATED, "out", "acc", "loss")
    rows: list[Row] = [
        (
            *((_label(group),) if several else (_text(group.algorithm), _text(group.topology))),
            str(len(group.runs)),
            _interval(group.wall_clock_s),
            data(group.sent_bytes.mean),
            _interval(group.accuracy),
            _interval(group.loss),
        )
        for group in groups
    ]
    target = next((group.target for group in groups if group.target is not None), None)
    if target is not None:
        columns += (f"reached {target:g}", f"s to {target:g}")
        reached = [
            (f"{group.time_to_target_s.n}/{len(group.runs)}", _interval(group.time_to_target_s)) for group in groups
        ]
        rows = [row + each for row, each in zip(rows, reached, strict=True)]
    notes = _notes(rows, "means over runs, one for each seed", "±: half of the 95 % interval of the mean (Student's t)")
    not_valid = [run for group in groups for run in group.not_valid]
    if not_valid:
        notes += (f"times of these cannot be trusted: {named(not_valid)}",)
    if target is not None:
        notes += _how_often(runs)
    return TextTable(columns, rows, ("loss", "out", "topology", "algo", EMULATED, "acc"), notes, ("group",))


def node_table(nodes: Sequence[NodeRow]) -> TextTable:
    columns: Columns = (
        *("run", "node", "end", "rounds", EMULATED, "train s", "wait s"),
        *("out", "in", "dropped", "acc", "loss"),
    )
    rows: list[Row] = [
        (
            node.run_id,
            node.node,
            _end(node),
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
    columns, rows = _without_run(columns, rows)
    return TextTable(columns, rows, ("dropped", "train s", "in", "wait s", "loss", "out", "rounds"), (_EMULATED_NOTE,))


def round_table(rounds: Sequence[RoundRow]) -> TextTable:
    columns: Columns = ("run", "round", "nodes", EMULATED, "round s", "out", "train loss", "acc", "loss")
    rows: list[Row] = [
        (
            each.run_id,
            str(each.round),
            str(each.nodes),
            number(each.last_t),
            number(each.round_s.median),
            data(each.sent_bytes),
            _over_nodes(each.training_loss, each.nodes),
            _over_nodes(each.accuracy, each.evaluated_nodes),
            _over_nodes(each.loss, each.evaluated_nodes),
        )
        for each in rounds
    ]
    columns, rows = _without_run(columns, rows)
    head = f"{EMULATED}: when the last node finished the round"
    least = ("loss", "out", "round s", "nodes", "train loss")
    return TextTable(columns, rows, least, _notes(rows, head, "round s: the median node's", _OVER_NODES))


def _rounds(run: RunSummary) -> str:
    """Rounds of all learners; the fewest and the most where they differ."""
    if run.rounds_least is None or run.rounds_least == run.rounds:
        return _text(run.rounds)
    return f"{run.rounds_least} to {_text(run.rounds)}"


def number(value: float | None) -> str:
    """Four significant digits, but never fewer than those before the point."""
    if value is None:
        return NOTHING
    if abs(value) >= 1e15:
        return f"{value:.3e}"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:#.4g}"


def data(size_bytes: float | None) -> str:
    return NOTHING if size_bytes is None else size_for_people(size_bytes)


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


def _over_nodes(values: Spread, count: int) -> str:
    return plus_minus(values.mean, values.std if count > 1 else None)


def _interval(values: MeanEstimate) -> str:
    half = None if values.high is None or values.mean is None else values.high - values.mean
    return plus_minus(values.mean, half)


def _notes(rows: Sequence[Row], *notes: str) -> tuple[str, ...]:
    """About ± only where there is one."""
    has_plus_minus = any("±" in cell for row in rows for cell in row)
    return tuple(note for note in notes if has_plus_minus or not note.startswith("±"))


def _how_often(runs: Sequence[RunSummary]) -> tuple[str, ...]:
    """How often accuracy was measured, which limits how exact a time to a target is."""
    rounds = [run.evaluated.every_rounds for run in runs if run.evaluated.every_rounds is not None]
    seconds = [run.evaluated.every_s for run in runs if run.evaluated.every_s is not None]
    if not rounds or not seconds:
        return ("accuracy is known once a run at most: evaluation.every=1 tells times to a target more exactly",)
    what = f"accuracy is known every {_range(rounds, '{:g}')} rounds (about {_range(seconds, '{:.3g}')} s)"
    if max(rounds) <= 1:
        return (what.replace("1 rounds", "round"),)
    return (f"{what}, so times to a target are late by up to that; evaluation.every=1 tells them more exactly",)


def _range(values: Sequence[float], form: str) -> str:
    least, most = form.format(min(values)), form.format(max(values))
    return least if least == most else f"{least} to {most}"


def _label(group: RunGroup) -> str:
    """The settings that distinguish a group, in the words of `--set` or shorter."""
    words = {key: _short_key(key) for key in group.differs}
    several = Counter(words.values())
    told = [f"{word if several[word] == 1 else key}={group.differs[key]}" for key, word in words.items()]
    return " ".join(told) or group.runs[0]


def _short_key(key: str) -> str:
    if key == "topology_name":
        return "topology"
    if key.startswith("inputs."):
        return key.removeprefix("inputs.")
    if key.startswith(("training.", "versions.")) or ".options." in key:
        return key.rpartition(".")[2]
    return key.removesuffix(".name").removesuffix(".kind")


def _end(node: NodeRow) -> str:
    """How a node ended, and when, unless at the end of its work."""
    if node.end_planned is None:
        return node.end or node.state
    planned = " (planned)" if node.end_planned and node.end != "left" else ""
    return f"{node.end}{planned} at {number(node.end_s)} s"


def _text(value: object) -> str:
    return NOTHING if value is None else str(value)


def _sum(*parts: int | None) -> int | None:
    return None if None in parts else sum(part or 0 for part in parts)


def _without_run(columns: Columns, rows: list[Row]) -> tuple[Columns, list[Row]]:
    """Leaves out the column of the run where all lines have the same."""
    if len({row[0] for row in rows}) > 1:
        return columns, rows
    return columns[1:], [row[1:] for row in rows]
