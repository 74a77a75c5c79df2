"""A researcher's own code, in a file."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def own(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The path of a file with what the test's module calls OWN."""
    file = tmp_path / "own.py"
    file.write_text(request.module.OWN)
    return str(file)
