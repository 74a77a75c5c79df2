"""What can be wrong with the choice of a model.

Takes nothing, gives types, touches nothing.
"""

from __future__ import annotations

from testbed.errors import ExitCode, TestbedError


class ModelProblem(TestbedError):
    """There is no such model, or it does not fit its options or the data."""

    exit_code = ExitCode.INVALID_INPUT
