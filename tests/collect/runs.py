"""Run directories for tests: written with the contract's own `line`, as nodes and control write them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from testbed.records import SCHEMA, AnyRecord, Build, Count, End, Evaluation, Over, Phases, Record, Round, Start, line
from testbed.rundir import RunDirectory, create_run

BUILD = Build("0", "0", "none")
NOTHING = Count()


def start(rank: int = 0, t: float = 0.0, *, learner: int | None = 0, schema: int = SCHEMA, round: int = 0) -> Start:  # noqa: A002
    roles = ("server",) if learner is None else ("learner",)
    return Start(t, schema, f"n.{rank}", rank, roles, learner, 10, 100, "dpsgd", 1, BUILD, None, round)


def round_(
    t: float, number: int, sent: int = 0, *, loss: float | None = 1.0, control: int = 0, aggregated: int = 1
) -> Round:
    phases = Phases(train=0.25, encode=0.125, wait=0.5)
    count = Count(sent, 2, control, 1)
    return Round(t, number, loss, phases, count, Count(2 * sent, 3, 0, 1), 5, aggregated, dropped=1, expired=2)


def evaluation(t: float, number: int, accuracy: float | None, loss: float = 1.0, on: str = "test") -> Evaluation:
    return Evaluation(t, number, accuracy, loss, 100, on)


def end(t: float, reason: str = "finished", *, sent: Count = NOTHING, received: Count = NOTHING) -> End:
    return End(t, reason, 0, 0, sent, received)


def text(records: Iterable[Record]) -> bytes:
    return b"".join(line(cast(AnyRecord, record)) for record in records)


def plan(count: int, **changes: object) -> dict[str, object]:
    return {
        "schema": 1,
        "run_id": "run",
        "seed": 1,
        "runtime": "sim",
        "engine": "none",
        "topology_name": "wan",
        "topology": {"links": [1, 2]},
        "nodes": [{"name": f"n.{rank}", "rank": rank, "learner": rank} for rank in range(count)],
        "overlay": {"edges": [[0, 1]]},
        "experiment": {"algorithm": {"name": "dpsgd"}, "overlay": {"kind": "ring"}, "seed": 1},
        "inputs": {"topologies/wan.xml": "abc", "experiment.yaml": "abc"},
    } | changes


def write(
    results: Path,
    journals: dict[str, bytes],
    planned: dict[str, object] | None = None,
    control: Sequence[Record] = (),
    run_id: str = "run",
) -> RunDirectory:
    """With a plan, control's log and the summary are as after any run, but for what is given."""
    run = create_run(results, run_id)
    for name, contents in journals.items():
        run.node(name).path.mkdir()
        run.node(name).journal.write_bytes(contents)
    if planned is not None:
        run.plan.write_text(json.dumps(planned))
    last = [Over(9.0, "finished", len(journals), 0)] if planned is not None else []
    log = text([*control, *([] if any(isinstance(each, Over) for each in control) else last)])
    if planned is not None and planned["runtime"] == "local":
        (run.path / "summary.json").write_text('{"schema": 1, "health": "valid", "why": []}')
    if log:
        run.events.write_bytes(log)
    return run


def two_nodes(results: Path, run_id: str = "run", **changes: object) -> RunDirectory:
    """Two nodes, two rounds each; every number can be checked by hand."""
    first = [
        start(0),
        round_(1.0, 0, 100),
        evaluation(1.0, 0, 0.5, 2.0),
        round_(2.0, 1, 100),
        evaluation(2.0, 1, 0.7, 1.5),
        end(2.5, sent=Count(210, 4, 6, 2), received=Count(400, 6, 0, 2)),
    ]
    second = [
        start(1, learner=1),
        round_(1.5, 0, 50),
        evaluation(1.5, 0, 0.3, 3.0),
        round_(4.5, 1, 50),
        evaluation(4.5, 1, 0.9, 0.5),
        end(4.5, sent=Count(100, 4, 0, 2), received=Count(200, 6, 0, 2)),
    ]
    planned = plan(2, run_id=run_id, **changes)
    return write(results, {"n.0": text(first), "n.1": text(second)}, planned, run_id=run_id)
