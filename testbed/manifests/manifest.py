"""What rendering gives: files as text, and what was said while they were made. Pure."""

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
