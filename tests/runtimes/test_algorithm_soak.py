"""Every built-in algorithm in networks, with options and faults, that are drawn from seeds.

`scripts/soak algorithms` tries hundreds of seeds of each.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from soaks.algorithm_runs.attempt import in_sim, locally
from soaks.algorithm_runs.story import Story, drawn
from soaks.algorithm_runs.witness import Witness
from testbed.catalogue.algorithms import ALGORITHMS
from testbed.node.messages import Message, Received
from testbed.node.sharing.base import Sharing
from testbed.records import Event
from tests.node.small_world import World
from tests.runtimes.local_runs import needs_network

SEEDS = range(10)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_drawn_run_goes_well(algorithm: str, seed: int, tmp_path: Path) -> None:
    verdict = in_sim(drawn(algorithm, seed), tmp_path)
    assert verdict.is_good, verdict.figures


@needs_network
@pytest.mark.processes
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_same_draw_goes_well_with_real_processes(algorithm: str, tmp_path: Path) -> None:
    verdict = locally(drawn(algorithm, 0), tmp_path)
    assert verdict.is_good, verdict.figures


