"""What a fabric waits with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testbed.engines.fabric.waiting import Waiting


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    made = Waiting()
    yield made
    made.close()
