"""`testbed render --target compose`: the inputs besides a plan.

Takes the resolved experiment, gives arguments of the container that prepares the run; reads a bundled file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from testbed.code import is_code
from testbed.errors import UsageProblem
from testbed.topologies.bundled import find_bundled

if TYPE_CHECKING:
    from testbed.experiment.language import Experiment
    from testbed.experiment.origin import Setting
    from testbed.runtimes.planning import Resolved

_ONLY_KOLLAPS = {"orchestrator": "--orchestrator", "machines": "--machines", "cluster_path": "--path"}


def check_options(context: click.Context) -> None:
    """Raises UsageProblem for options that have no meaning for Compose."""
    for name, flag in _ONLY_KOLLAPS.items():
        if context.get_parameter_source(name) not in (None, click.core.ParameterSource.DEFAULT):
            raise UsageProblem(f"{flag} says something about a cluster, and Compose starts a run on one machine")


def words_anywhere(resolved: Resolved, file: str, settings: Sequence[Setting]) -> list[str] | None:
    """Topology and options from which the image makes the same plan; None if they depend on files of this machine."""
    from testbed.experiment.attached import own_files

    experiment = resolved.experiment
    bundled = find_bundled(experiment.topology)
    if bundled is None or experiment.topology != file or resolved.origin.attached:
        return None
    if hashlib.sha256(bundled.read_bytes()).hexdigest() != resolved.inputs[experiment.topology]:
        return None  # a file here has the name of a bundled one
    if any(own_files(experiment)) or _has_code(experiment):
        return None
    options = [word for setting in settings for word in setting.option.split(" ", 1)]
    return [f"topologies/{bundled.name}", *options]


def _has_code(experiment: Experiment) -> bool:
    chosen = (experiment.algorithm, experiment.sharing, experiment.data, experiment.model)
    return any(is_code(each.name) for each in chosen) or is_code(experiment.overlay.kind)
