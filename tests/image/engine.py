"""A real Docker Engine and one image for all tests that need them; the first test makes it."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

import pytest

from testbed.errors import TestbedError
from testbed.image.build import Request, build_image
from testbed.image.engine_client import connected
from testbed.image.facts import image_id

TAG = os.environ.get("TESTBED_TEST_IMAGE", "testbed:test")
"""Stays: the next run of the tests finds its layers."""
EXAMPLE = Path(__file__).parents[2] / "examples" / "my-algorithm"
REQUIRED = "TESTBED_TEST_DOCKER"
"""Set by CI: without an Engine these tests fail there."""


def need_engine() -> None:
    """Skips, with the reason, where no Engine answers; fails where one is required."""
    try:
        with connected(timeout_s=20):
            return
    except TestbedError as problem:
        if os.environ.get(REQUIRED):
            pytest.fail(f"CI has an Engine, but: {problem.message}")
        pytest.skip(f"{problem.message} ({problem.hint})")


def need_image() -> str:
    """The id of the image called TAG, as this checkout makes it, with the example in it."""
    need_engine()
    lock = Path(tempfile.gettempdir()) / f"testbed-test-image-{os.getuid()}.lock"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # the second process finds all layers there
        try:
            build_image(Request(tag=TAG, algorithms=(EXAMPLE / "fresh_gossip.py",)), lambda _: None, lambda _: None)
        except TestbedError as problem:
            if os.environ.get(REQUIRED):
                raise
            pytest.skip(f"the image cannot be built here: {problem.message}")
        return image_id(TAG)
