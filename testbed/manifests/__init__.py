"""Manifests: the files from which other programs start a run.

Takes a `RunPlan`, gives a `Manifest`: the text of files and what was rewritten in them; touches nothing. One package
for each target. Text comes from `templates/`, and a value enters a template only through a dumper. May import the
leaves, `topologies`, `network`, `targets`, `experiment` and `plan`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from testbed.errors import Finding


@dataclass(frozen=True)
class Manifest:
    """The files of one target, by their names below the folder that they are written to."""

    files: Mapping[str, str]
    said: tuple[Finding, ...] = ()
    """What was rewritten and why, and what to check before trusting the results."""
