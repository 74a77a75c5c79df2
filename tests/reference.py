"""Where the reference material is, for tests that compare with real Kollaps."""

from __future__ import annotations

from pathlib import Path

import pytest

REFERENCE = Path(__file__).parents[2] / "shared" / "reference"

needs_reference = pytest.mark.skipif(
    not REFERENCE.is_dir(), reason="the reference material of real Kollaps is not beside this checkout"
)


def reference_files() -> list[Path]:
    return sorted((REFERENCE / "xml").glob("*.xml"))
