"""Exceptions about data sets and partitions.

Takes nothing, gives types, touches nothing.
"""

from __future__ import annotations

from testbed.errors import ExitCode, PreflightRefused, TestbedError


class Impossible(TestbedError):
    """No such data, or no such partition of it, exists; the message says why."""

    exit_code = ExitCode.INVALID_INPUT


class NoSource(PreflightRefused):
    """No source of a data set gave the right data."""


class SourceFailed(Exception):
    """One source of a data set failed; the next one may succeed."""
