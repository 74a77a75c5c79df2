"""What can go wrong with data.

Takes nothing, gives types, touches nothing.
"""

from __future__ import annotations

from testbed.errors import ExitCode, PreflightRefused, TestbedError


class Impossible(TestbedError):
    """Such data, or such a partition of it, cannot be had; says why."""

    exit_code = ExitCode.INVALID_INPUT


class NoSource(PreflightRefused):
    """No source of a data set answered with the right data."""


class SourceFailed(Exception):
    """One source of a data set cannot give it; the next one may."""
