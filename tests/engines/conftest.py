"""What a fabric waits with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testbed.engines.fabric.dispatcher import Dispatcher
from testbed.engines.fabric.python_plane.waiting import Waiting


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
