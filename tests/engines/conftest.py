"""What a fabric waits with, and every data plane."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from testbed.engines.fabric.data_plane import DataPlane
from testbed.engines.fabric.dispatcher import Dispatcher
from testbed.engines.fabric.planes import PLANES
from testbed.engines.fabric.python_plane.waiting import Waiting
from tests.engines.planes import MakePlane, setup


@pytest.fixture
def dispatcher() -> Iterator[Dispatcher]:
    made = Dispatcher()
    yield made
    made.close()


@pytest.fixture
def waiting(dispatcher: Dispatcher) -> Iterator[Waiting]:
    made = Waiting(dispatcher.fileno())
    yield made
    made.close()


@pytest.fixture(params=sorted(PLANES))
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakePlane]:
    """Planes of each kind, whose devices may be sockets."""
    monkeypatch.setattr(f"testbed.engines.fabric.{request.param}_plane.plane.make_fit", lambda _: None)
    made: list[DataPlane] = []

    def made_of(topology: str, **more: Any) -> DataPlane:
        made.append(PLANES[request.param](setup(topology, **more)))
        return made[-1]

    yield made_of
    for plane in made:
        plane.close()
