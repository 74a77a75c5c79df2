"""One image for all tests of a process."""

from __future__ import annotations

import pytest

from tests.image.engine import need_image


@pytest.fixture(scope="session")
def image() -> str:
    """The id of the image with the example in it; skips where there is no Engine."""
    return need_image()
