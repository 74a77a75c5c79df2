"""Every algorithm of the catalogue has a second implementation."""

from __future__ import annotations

from pathlib import Path

from testbed.catalogue.algorithms import ALGORITHMS

YET_TO_COME = {"plexus"}


def test_every_algorithm_has_a_second_implementation() -> None:
    there = {file.stem.removeprefix("test_").replace("_", "-") for file in Path(__file__).parent.glob("test_*.py")}
    assert set(ALGORITHMS) - there <= YET_TO_COME
    assert not YET_TO_COME & there
