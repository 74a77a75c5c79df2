"""The error of a wrong choice of a model.

Takes nothing, gives types, touches nothing.
"""

from __future__ import annotations

from testbed.errors import ExitCode, TestbedError


class ModelProblem(TestbedError):
    """There is no such model, or its options or the data do not fit."""

    exit_code = ExitCode.INVALID_INPUT
