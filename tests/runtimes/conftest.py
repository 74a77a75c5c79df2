"""A corner of its own for every test that starts whole runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtimes.corner import Corner, made_in


@pytest.fixture
def corner(tmp_path: Path) -> Iterator[Corner]:
    with made_in(tmp_path) as made:
        yield made
