"""Compares plans: the settings of a run without what differs between repetitions.

Takes the path of a plan, and the data plane that carried the run, gives `ComparableSettings`; reads that file.

Repetitions may differ in run id, time of creation, how their runtime was chosen, seeds, the text of the experiment's
file (it may contain the seed), and what follows from the experiment and the seed: the overlay's edges (unless they come
from a file), the sizes of the data partitions, and the paces of the nodes. The hashes of all other files count: an
algorithm edited between two runs makes them different. So does the fabric's data plane: a slower one carries less.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

import msgspec

from testbed.collect.plan_head import FAULTS, read_plan_bytes

_APART = ("run_id", "created", "seed", "seeds", "samples", "runtime_choice", "runtime_facts")
"""Parts that do not count. A runtime's facts follow from its name."""
_DATA_PLANE = "data_plane"
_IN_PARTS = ("experiment", "versions")
"""Parts whose differences are reported key by key; all others are compared as one value."""
_FOLLOW = ("topology.contents", "nodes", "overlay", "parameters", "ms_per_step", "asked", "server")
"""Parts that follow from the experiment and its files."""
_LONGEST = 24
_HASH_DIGITS = 8


@dataclass(frozen=True)
class ComparableSettings:
    """Runs with equal keys are repetitions of one another; the settings tell people what differs."""

    key: str
    settings: dict[str, str] = field(default_factory=dict)


def read_settings(plan_file: Path, data_plane: str | None) -> ComparableSettings | None:
    """The settings of a run by its plan; None when that cannot be read.

    `data_plane` carried the run's packets. None if that is unknown: then the one that was planned counts.
    """
    text, _problems = read_plan_bytes(plan_file)
    try:
        plan = msgspec.json.decode(text, type=dict[str, object]) if text is not None else None
        if plan is None:
            return None
        kept = _kept(plan)
        if (carrier := data_plane or _planned_data_plane(plan)) is not None:
            kept[_DATA_PLANE] = carrier
        return ComparableSettings(_hash(kept), dict(_settings(kept)))
    except FAULTS:
        return None


def differences(groups: Sequence[ComparableSettings]) -> list[dict[str, str]]:
    """For each group the settings that not all groups share, without those that only follow from others."""
    known = [each for each in groups if each.settings]
    keys = list(dict.fromkeys(key for each in known for key in each.settings))
    differing = [key for key in keys if len({each.settings.get(key) for each in known}) > 1]
    everywhere = {key for key in differing if all(key in each.settings for each in known)}
    follow = set(_FOLLOW) | {key for key in differing if key.startswith("inputs.") and key not in everywhere}
    # An algorithm's options that others do not have follow from its name, and a data plane from the runtime.
    may_follow = [key for key in differing if ".options." in key or key == _DATA_PLANE]
    follow |= {key for key in may_follow if _is_one([each.settings.get(key) for each in known])}
    if "topology_name" in differing:
        follow.add("topology")  # its path
    told = [key for key in differing if key not in follow] or differing
    return [{key: each.settings[key] for key in told if key in each.settings} for each in groups]


def _is_one(values: Sequence[str | None]) -> bool:
    return len(set(values) - {None}) == 1 and None in values


def _kept(plan: dict[str, object]) -> dict[str, object]:
    kept = {key: value for key, value in plan.items() if key not in (*_APART, _DATA_PLANE)}
    experiment, inputs, nodes = kept.get("experiment"), kept.get("inputs"), kept.get("nodes")
    if isinstance(inputs, dict):
        named = set(_names(experiment))
        kept["inputs"] = {name: value for name, value in inputs.items() if name in named or not _is_experiment(name)}
    if isinstance(experiment, dict):
        kept["experiment"] = {key: value for key, value in experiment.items() if key != "seed"}
        overlay = experiment.get("overlay")
        if isinstance(overlay, dict) and overlay.get("kind") != "file":
            kept.pop("overlay", None)
    if isinstance(nodes, list):
        kept["nodes"] = [_without_pace(node) for node in nodes]
    return kept


def _planned_data_plane(plan: dict[str, object]) -> object:
    choice = plan.get(_DATA_PLANE)
    return choice.get("used") if isinstance(choice, dict) else None


def _names(value: object) -> Iterator[str]:
    """All texts in an experiment that may name a file; of `file.py:Name` the file."""
    if isinstance(value, str):
        yield value
        yield value.rpartition(":")[0]
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _names(each)


def _is_experiment(name: object) -> bool:
    """Whether an input is the experiment's own file: YAML that the experiment does not name."""
    return isinstance(name, str) and PurePath(name).suffix.lower() in (".yaml", ".yml")


def _without_pace(node: object) -> object:
    return {key: value for key, value in node.items() if key != "pace"} if isinstance(node, dict) else node


def _settings(kept: dict[str, object]) -> Iterator[tuple[str, str]]:
    for key, value in kept.items():
        if key == "inputs" and isinstance(value, dict):
            yield from ((f"inputs.{name}", _word(each)[:_HASH_DIGITS]) for name, each in value.items())
        elif key in _IN_PARTS and isinstance(value, dict):
            yield from _flat("" if key == "experiment" else f"{key}.", value)
        elif key == "topology":
            yield "topology.contents", _hash(value)[:_HASH_DIGITS]
        else:
            yield key, _word(value)


def _flat(prefix: str, values: dict[object, object]) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{key}.", value)
        else:
            yield f"{prefix}{key}", _word(value)


def _word(value: object) -> str:
    """A value as text; for long tables a hash."""
    if isinstance(value, str):
        return value
    text = msgspec.json.encode(value, order="deterministic").decode()
    return text if len(text) <= _LONGEST else _hash(value)[:_HASH_DIGITS]


def _hash(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()
