"""What a run whose sockets lie on volumes has on the Engine."""

from __future__ import annotations

from pathlib import Path

from testbed.image.engine_client import connected
from testbed.runtimes.docker.containers import PART_LABEL
from testbed.runtimes.docker.leftovers import volumes_of
from tests.docker.runs import containers

ON_VOLUMES = ("--sockets", "volume")


def volumes(folder: Path) -> list[str]:
    """Of the run `r`."""
    with connected() as engine:
        return volumes_of(engine, (folder / "results" / "r").resolve())


def relays(folder: Path) -> int:
    """That run in control's container."""
    (control,) = (each["Id"] for each in containers(folder) if each["Labels"].get(PART_LABEL) == "control")
    with connected() as engine:
        said = [str(words) for _, words in engine.api.top(control, "-eo pid,args")["Processes"]]
    return sum("containers.relay" in each for each in said)


def nothing_is_left(folder: Path) -> bool:
    runtime = folder / "results" / "r" / "runtime"
    there = [name for name in ("sockets", "processes.json", "outcome.json") if (runtime / name).exists()]
    return (containers(folder), volumes(folder), there) == ([], [], [])
