"""Every learner in a container of its own, on a real Engine; skipped where there is none."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker.runs import command
from tests.image.engine import TAG, need_image

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.containers)


@pytest.fixture(scope="session")
def image() -> str:
    """The tag of an image with this checkout in it."""
    need_image()
    return TAG


@pytest.fixture(scope="module", autouse=True)
def _one_at_a_time() -> Iterator[None]:
    """All of them call their run `r`, and an Engine has only one container of a name."""
    lock = Path(tempfile.gettempdir()) / f"testbed-test-docker-{os.getuid()}.lock"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(autouse=True)
def _nothing_stays(tmp_path: Path) -> Iterator[None]:
    """However a test ends."""
    yield
    if (tmp_path / "results" / "r").exists():
        command(tmp_path, "destroy", "r")
