"""The compiled data plane."""

from __future__ import annotations

from testbed.engines.fabric.data_plane import DataPlane, Setup


def NativePlane(setup: Setup) -> DataPlane:  # noqa: N802 - stands for the class to come
    raise NotImplementedError(setup)
