"""A run that is going on, as far as commands that talk to its fabric can tell: a plan, a record, and a fabric."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.engines.fabric.start import FabricHandle
from testbed.plan.files import write_plan
from testbed.rundir import RunDirectory, create_run
from testbed.runtimes.local.places import Places, process_record
from tests.engines.world import configuration, pair
from tests.plan.test_make import nodes, plan_of


@contextmanager
def live_run(folder: Path, fabric_of: str | None = None) -> Iterator[tuple[RunDirectory, FabricHandle]]:
    """Of two nodes, a.0 and a.1 in the plan, whose fabric calls them n.0 and n.1."""
    from testbed.engines.fabric.start import start_fabric

    run = create_run(folder, "one")
    write_plan(run, plan_of(nodes(2)))
    with tempfile.TemporaryDirectory(prefix="testbed-") as sockets:
        places = Places(run, Path(sockets))
        places.record.parent.mkdir()
        config = configuration(fabric_of or pair("10ms", "20Mbps", queue="50ms"), run.path, Path(sockets))
        fabric = start_fabric(config, run.path / "runtime" / "fabric")
        places.write_record([process_record("control", os.getpid()), process_record("fabric", fabric.pid)])
        try:
            yield run, fabric
        finally:
            fabric.stop()
