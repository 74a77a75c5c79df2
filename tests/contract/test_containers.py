"""The contract, kept by containers: called after this process, so they need not wait for those of other tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.containers import InContainers
from tests.contract.contract import RuntimeContract
from tests.image.engine import TAG, need_image
from tests.runtimes.sim_runs import plan_of, star

pytestmark = pytest.mark.processes

GOES = """import os

from testbed.node.algorithm import Algorithm


class Goes(Algorithm):
    async def run(self, node):
        os._exit(3)
"""


@pytest.fixture(scope="module", autouse=True)
def _image() -> None:
    need_image()


class TestContainers(RuntimeContract):
    runtime = InContainers(TAG)
    algorithms = frozenset({"dpsgd", "fedavg"})
    """With peers, and with a server: the node process is that of `local`, where all are tried."""
    soaked = frozenset(
        {
            "test_a_disconnected_node_is_reached_again",
            "test_a_node_may_join_later",
            "test_a_paused_node_goes_on",
            "test_what_divides_the_network_heals",
            "test_stops_when_its_time_is_over",
            "test_tells_who_sent_what_is_no_model",
            "test_what_cannot_be_sent_ends_at_the_line_that_sends_it",
            "test_work_beside_run_that_fails_ends_the_run_with_its_place",
        }
    )
    """Control and the fabric do these, which are those of `local`."""

    def test_one_that_fails_and_might_come_back_keeps_its_exit_code(self, tmp_path: Path) -> None:
        """Docker starts it once more after the run, since the topology's events want it back some time."""
        source = tmp_path / "goes.py"
        source.write_text(GOES)
        events = "  - {at: 100s, node: node.0, do: crash}\n  - {at: 200s, node: node.0, do: join}\n"
        plan = plan_of(star(2, events), algorithm={"name": f"{source}:Goes"})
        _, outcome = self.runtime.knowing(source).run(plan, tmp_path)
        told = {each.node: each.failure.message for each in outcome.failures}
        assert "its container ended with exit code 3" in told["node.0"]
