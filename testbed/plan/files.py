"""Plan files: written completely or not at all; reading gives all errors at once.

Takes a run directory or a path, gives a plan; touches the plan's files only.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from testbed.catalogue.algorithms import has_same_neighbours
from testbed.errors import Finding, InvalidInput, UsageProblem, Where, error
from testbed.experiment.attached import own_files
from testbed.plan.check import MOST_FINDINGS, check_plan
from testbed.plan.model import SCHEMA, NodePlan, PlannedOverlay, RunPlan, Versioned
from testbed.run_files import read_plain
from testbed.rundir import RunDirectory
from testbed.topologies.source import read_at_most
from testbed.topologies.write_yaml import to_yaml
from testbed.units import format_size, shown

MAX_PLAN_BYTES = 256 * 2**20
_Kind = TypeVar("_Kind", bound=Versioned)


def write_plan(run: RunDirectory, plan: RunPlan) -> None:
    """Writes the plan, its topology as YAML, and each node's share. The plan comes last, when all others are there."""
    run.nodes.mkdir(parents=True, exist_ok=True)
    _write(run.topology, to_yaml(plan.load_topology()))
    for share in split(plan):
        folder = run.node(share.node.name)
        folder.path.mkdir(exist_ok=True)
        _write(folder.plan, json.dumps(share.document(), ensure_ascii=False, allow_nan=False) + "\n")
    _write(run.plan, to_text(plan))


def to_text(plan: RunPlan) -> str:
    """The plan as JSON, one node per line; equal plans give equal text."""
    lines = []
    for key, value in plan.document().items():
        if key == "nodes" and isinstance(value, list) and value:
            nodes = ",\n    ".join(_line(node) for node in value)
            lines.append(f'  "nodes": [\n    {nodes}\n  ]')
        else:
            lines.append(f"  {_line(key)}: {_line(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def split(plan: RunPlan) -> Iterator[NodePlan]:
    """Every node's share, by rank."""
    names = tuple(node.name for node in plan.nodes)
    addresses = tuple(node.address for node in plan.nodes)
    table = plan.overlay.neighbours
    overlay: PlannedOverlay = plan.overlay
    if not has_same_neighbours(plan.experiment.algorithm.name):
        overlay = plan.overlay.model_copy(update={"neighbours": None})
    share: NodePlan | None = None
    for node in plan.nodes:
        neighbours = None
        if node.rank == plan.server and plan.overlay.kind == "star":
            neighbours = plan.learners
        elif table is not None:
            neighbours = table[node.learner] if node.learner is not None else ()
        if share is None:
            share = NodePlan(
                seed=plan.seed,
                node=node,
                ranks=names,
                addresses=addresses,
                learners=plan.learners,
                neighbours=neighbours,
                overlay=overlay,
                experiment=plan.experiment,
                ms_per_step=plan.ms_per_step,
                time_scale=plan.time_scale,
                server=plan.server,
                parameters=plan.parameters,
            )
        else:
            # The tables of all nodes are shared: a thousand copies of them would take seconds, and much memory.
            share = share.model_copy(update={"node": node, "neighbours": neighbours})
        yield share


def read_plan(path: str | Path, within: Path | None = None) -> RunPlan:
    """The plan in a file; raises InvalidInput, with findings, if it is not valid.

    `within` a run directory, no link is followed.
    """
    plan = _read(Path(path), RunPlan, within)
    problems = check_plan(plan)
    if problems:
        raise InvalidInput(str(path), problems)
    return plan


def read_node_plan(path: str | Path) -> NodePlan:
    """One node's share; raises InvalidInput as `read_plan` does."""
    return _read(Path(path), NodePlan)


def _read(path: Path, kind: type[_Kind], within: Path | None = None) -> _Kind:
    try:
        if within is not None:
            data: bytes | None = read_plain(path, within, MAX_PLAN_BYTES)
        elif not path.is_file():
            raise UsageProblem(f"{path}: {'is a directory' if path.is_dir() else 'does not exist'}")
        else:
            data = read_at_most(path, MAX_PLAN_BYTES)
    except OSError as problem:
        raise UsageProblem(f"{path}: {problem.strerror or problem}") from None
    if data is None:
        raise InvalidInput(str(path), [error("too-large", f"a plan has at most {format_size(MAX_PLAN_BYTES)}")])
    return _parsed(str(path), data, kind)


def plan_in(text: str) -> RunPlan:
    """The plan that `to_text` gave as text."""
    return _parsed("plan", text.encode(), RunPlan)


def _parsed(path: str, data: bytes, kind: type[_Kind]) -> _Kind:
    try:
        value = json.loads(data.decode())
    except UnicodeDecodeError:
        raise InvalidInput(path, [error("encoding", "this is not UTF-8", "a plan is JSON")]) from None
    except json.JSONDecodeError as problem:
        where = Where(problem.lineno, problem.colno)
        raise InvalidInput(path, [error("syntax", f"not JSON: {problem.msg}", "", where)]) from None
    except RecursionError:
        raise InvalidInput(path, [error("too-deep", "nested too deep for a plan")]) from None
    if not isinstance(value, dict):
        raise InvalidInput(path, [error("bad-shape", "a plan is a JSON object")])
    schema = value.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        told = "it does not say which schema it has" if not isinstance(schema, int) else f"it has schema {schema}"
        hint = "use the version of testbed that wrote it" if isinstance(schema, int) else ""
        raise InvalidInput(path, [error("schema", f"{told}; this testbed reads schema {SCHEMA}", hint)])
    try:
        return kind.model_validate(value)
    except ValidationError as problem:
        raise InvalidInput(path, list(_findings(problem))) from None


def _findings(problem: ValidationError) -> Iterator[Finding]:
    """A finding for every wrong value, named by its keys."""
    wrong = problem.errors(include_url=False)
    for each in wrong[:MOST_FINDINGS]:
        keys = ".".join(str(part) for part in each["loc"])
        yield error("bad-plan", f"{keys}: {each['msg']}", f"it is {shown(str(each['input']))}")
    if len(wrong) > MOST_FINDINGS:
        yield error("bad-plan", f"{len(wrong) - MOST_FINDINGS} more like these")


def _write(path: Path, text: str) -> None:
    """Writes a file atomically; only one process writes it."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as problem:
        raise UsageProblem(f"cannot write {path}: {problem.strerror or problem}") from None


def changed_inputs(plan: RunPlan) -> Iterator[str]:
    """Files of code and data that have changed or gone since the plan was made; all other inputs are in the plan."""
    for name in own_files(plan.experiment):
        try:
            is_same = hashlib.sha256(Path(name).read_bytes()).hexdigest() == plan.inputs.get(name)
        except OSError:
            is_same = False
        if not is_same:
            yield name
