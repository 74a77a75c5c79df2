"""A fabric that is wrong by 30 % in any one parameter is found out, with real sockets; one that is right is not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import yaml

from testbed.engines.namespace import TcpSettings
from testbed.network.graph import expand
from testbed.topologies.load import load_bytes
from testbed.topologies.model import Topology
from testbed.topologies.source import Form
from testbed.verify.judge import Verdict
from testbed.verify.measure import Measured, measure
from testbed.verify.pairs import Pair, choose_pairs
from testbed.verify.plan import Plan
from testbed.verify.prepare import config_for
from testbed.verify.sizing import Effort
from testbed.verify.work_folder import make_work_folder
from tests.engines.quiet import skip_where_nobody_keeps_time, wait_for_quiet
from tests.engines.world import needs_network

pytestmark = [needs_network, pytest.mark.alone]

ASKED = {"latency": 50.0, "jitter": 1.0, "loss": 5.0, "rate": 10.0, "queue": 50.0}
UNITS = {"latency": "ms", "jitter": "ms", "loss": "%", "rate": "Mbps", "queue": "ms"}
SHOWS = {
    "latency": {"round trip"},
    "jitter": {"jitter", "jitter back"},
    "loss": {"loss"},
    "rate": {"rate (UDP)"},
    "queue": {"queue"},
}
"""What must be found wrong."""
MUTATIONS = [(name, factor) for name in ASKED for factor in (0.7, 1.3)]
OFF = {"latency": "0ms", "rate": "unlimited"}
MOST_ATTEMPTS = 3
EFFORT = Effort(jitter_probes=500, drops=1_000, told_tcp=0)


def properties(**changed: float) -> dict[str, str]:
    return {name: f"{value:g}{UNITS[name]}" for name, value in {**ASKED, **changed}.items()}


def topology(links: list[dict[str, str]]) -> Topology:
    """Each link has two nodes of its own."""
    document = {
        "services": {"n": {"replicas": 2 * len(links)}},
        "links": [
            {"from": f"n.{2 * number}", "to": f"n.{2 * number + 1}", **link} for number, link in enumerate(links)
        ],
    }
    return load_bytes(yaml.safe_dump(document).encode(), Form.YAML, "mutations").require()


def measured(asked: Topology, real: Topology) -> tuple[dict[int, Pair], Measured]:
    """The pairs by number of their link."""
    pairs = choose_pairs(expand(asked), len(asked.nodes) // 2, seed=1)
    with make_work_folder() as work:
        config = config_for(real, 1, work.folder)
        found = measure(Plan(pairs, None, EFFORT), config, work, TcpSettings(), lambda _: None)
    return {pair.origin // 2: pair for pair in pairs}, found


Wrong = list[set[str]]


@pytest.fixture(scope="module")
def found() -> tuple[Wrong, Sequence[str]]:
    """What is found wrong between the two nodes of each link, and how the fabric was.

    One link is right, ten are mutated, one is without shaping. Again where the right one was found wrong: this machine
    may have others' work to do.
    """
    for _ in range(MOST_ATTEMPTS):
        wrong, overloaded = found_once()
        if not wrong[0]:
            break
        wait_for_quiet()
    return wrong, overloaded


def found_once() -> tuple[Wrong, Sequence[str]]:
    mutated = [properties(**{name: ASKED[name] * factor}) for name, factor in MUTATIONS]
    real = [properties(), *mutated, OFF]
    pairs, found = measured(topology([properties()] * len(real)), topology(real))
    assert set(pairs) == set(range(len(real)))
    assert not found.is_as_asked
    wrong = [
        {row.what for row in found.rows if row.pair == pairs[number].name and row.verdict is Verdict.WRONG}
        for number in range(len(real))
    ]
    return wrong, found.overloaded


@pytest.fixture
def wrong(found: tuple[Wrong, Sequence[str]]) -> Wrong:
    return found[0]


def test_the_right_network_passes(found: tuple[Wrong, Sequence[str]]) -> None:
    wrong, overloaded = found
    if wrong[0]:
        skip_where_nobody_keeps_time(overloaded)
    assert wrong[0] == set()


@pytest.mark.parametrize(("number", "name"), [(1 + number, name) for number, (name, _) in enumerate(MUTATIONS)])
def test_a_network_that_is_wrong_by_30_percent_fails(wrong: Wrong, number: int, name: str) -> None:
    assert SHOWS[name] <= wrong[number]


def test_a_network_without_shaping_fails(wrong: Wrong) -> None:
    assert {"round trip", "jitter", "loss", "rate (UDP)", "queue"} <= wrong[-1]
