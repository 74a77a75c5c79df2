"""Both implementations of the packet model."""

from __future__ import annotations

import pytest

from testbed.engines.fabric.native_plane.packets import NativePackets
from testbed.network.packets import Packets


@pytest.fixture(params=[Packets, NativePackets], ids=["python", "native"])
def _each_model(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test's module calls `Packets` is the one, and then the other."""
    monkeypatch.setattr(request.module, "Packets", request.param)
