"""A network with learners in it: what is asked of it is found, and what is not asked is found out."""

from __future__ import annotations

from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from testbed.engines.fabric.config import FabricConfig
from testbed.errors import UsageProblem
from testbed.plan.addresses import address
from testbed.protocol.fabric import Cut, SetLink
from testbed.verify.judge import Row, Verdict
from testbed.verify.live import LiveNetwork, measure_live
from testbed.verify.measure import Measured
from tests.engines.world import World, configuration, links, needs_network, tcp_receiver, tcp_sender, world

pytestmark = [needs_network, pytest.mark.alone]
_PROBES = 40


def topology(
    rate: str = "10Mbps", loss: str = "10%", latencies: tuple[str, str, str] = ("20ms", "20ms", "20ms"), **more: Any
) -> str:
    """Between nodes 0 and 1, 2 and 3, 4 and 5."""
    one, two, three = latencies
    return links(
        6,
        [
            ("n.0", "n.1", {"latency": one, "rate": rate}),
            ("n.2", "n.3", {"latency": two, "rate": "100Mbps", "loss": loss}),
            ("n.4", "n.5", {"latency": three, "rate": "100Mbps"}),
        ],
        **more,
    )


def found_in(made: World, config: FabricConfig) -> Measured:
    """What is found where `config` is what was asked for."""
    pids = {child.rank: child.pid for child in made.children}
    live = LiveNetwork(config, config.control_socket, config.load_topology(), Path(made.config.engine), pids)
    pairs, found = measure_live(live, 20, 1, lambda _: None, probes=_PROBES)
    assert {frozenset((pair.origin, pair.dest)) for pair in pairs} == {
        frozenset((0, 1)),
        frozenset((2, 3)),
        frozenset((4, 5)),
    }
    assert {row.verdict for row in found.rows} <= {Verdict.OK, Verdict.WRONG, Verdict.TOLD}
    assert "jitter, queues" in found.left_out[0]
    return found


def wrong(rows: list[Row]) -> set[str]:
    return {row.what for row in rows if row.verdict is Verdict.WRONG}


@pytest.mark.soaked
def test_beside_traffic(tmp_path: Path) -> None:
    with world(topology(), tmp_path) as made:
        work = {
            0: tcp_sender(address(1), 20.0),
            1: tcp_receiver(30.0),
            2: tcp_sender(address(3), 20.0),
            3: tcp_receiver(30.0),
        }
        for rank in range(6):
            made.node(rank, work.get(rank, lambda: None))
        made.begin()
        made.control.ask(lambda number: SetLink(number, "n.4", "n.5", latency_ms=35.0))
        for child in made.children:
            child.start()
        found = found_in(made, made.config)
        rows = list(found.rows)
        assert len(found.left_out) == 1
        assert wrong(rows) == set(), rows
        measured = {row.what for row in rows if row.verdict is Verdict.OK}
        assert {"round trip, least", "loss", "loss back", "loss, counted", "busiest second"} <= measured
        # What was set by hand is what is asked for now.
        assert max(row.asked or 0.0 for row in rows if row.what == "round trip, least") == pytest.approx(70.0, abs=0.1)

        text = topology("7Mbps", "60%", ("26ms", "14ms", "20ms"))
        rows = list(found_in(made, configuration(text, tmp_path, Path(made.config.sockets))).rows)
        assert {"round trip, least", "loss, counted", "busiest second"} <= wrong(rows)
        slow = {row.pair for row in rows if row.what == "round trip, least" and row.verdict is not Verdict.OK}
        assert len(slow) == 2  # of both: too long, and too short


def test_a_run_that_ends_meanwhile_is_over_and_no_bug(tmp_path: Path) -> None:
    with world(topology(), tmp_path) as made:
        for rank in range(6):
            made.node(rank)
        made.begin()
        end = Timer(1.5, made.fabric.stop)
        end.start()
        with pytest.raises(UsageProblem, match="the run is over"):
            found_in(made, made.config)
        end.join()


def test_pairs_of_nodes_that_go_meanwhile_are_not_judged(tmp_path: Path) -> None:
    with world(topology(), tmp_path) as made:
        for rank in range(6):
            made.node(rank)
        made.begin()
        cut = Timer(1.0, lambda: made.fabric.connect().ask(lambda number: Cut(number, ranks=(4,))))
        cut.start()
        rows = found_in(made, made.config).rows
        cut.join()
        assert {row.verdict for row in rows if "n.4" in row.pair and " → n.5" in row.pair} == {Verdict.TOLD}
        assert "went away meanwhile" in next(row.detail for row in rows if "n.4" in row.pair)
        assert {row.verdict for row in rows if row.pair == "n.0 → n.1"} == {Verdict.OK}


def test_a_network_that_changes_meanwhile_is_not_judged(tmp_path: Path) -> None:
    events = [{"at": "3s", "link": ["n.4", "n.5"], "latency": "60ms"}]
    with world(topology(events=events), tmp_path) as made:
        for rank in range(6):
            made.node(rank)
        made.begin()
        found = found_in(made, made.config)
        assert {row.verdict for row in found.rows} == {Verdict.TOLD}
        assert "changed meanwhile" in found.rows[0].detail
