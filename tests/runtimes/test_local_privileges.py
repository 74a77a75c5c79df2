"""Researchers' code runs without any privilege, whether root or a user started it, with a fabric and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.records import Event
from tests.runtimes.local_runs import needs_network, run
from tests.runtimes.sim_runs import plan_of, records, star

pytestmark = pytest.mark.processes

TELLS = """
from pathlib import Path
from testbed.node.algorithms.dpsgd import DPSGD


class Tells(DPSGD):
    async def run(self, node):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(("Cap", "NoNewPrivs")):
                node.note("has", line)
        await super().run(node)
"""


@pytest.mark.parametrize("engine", [pytest.param("fabric", marks=needs_network), "none"])
def test_a_node_has_given_up_all_its_privileges(engine: str, tmp_path: Path) -> None:
    source = tmp_path / "tells.py"
    source.write_text(TELLS)
    plan = plan_of(star(2), algorithm={"name": f"{source}:Tells"}, stop={"rounds": 1})
    directory, outcome = run(plan, tmp_path, engine)
    assert outcome.finished == 2
    told = [each.detail for each in records(directory, "node.1") if isinstance(each, Event) and each.what == "has"]
    found = dict(each.split(":\t") for each in told)
    assert found.keys() >= {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs"}
    assert found.pop("NoNewPrivs") == "1"
    bounding = int(found.pop("CapBnd"), 16)
    assert {name: int(value, 16) for name, value in found.items()} == dict.fromkeys(found, 0)
    assert bounding == 0 or engine == "none", "an ordinary user on plain loopback cannot empty it, and needs not"
