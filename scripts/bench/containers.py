#!/usr/bin/env python3
"""How fast the containers of a run start, beside bare loops of SDK calls for the same number of containers.

learners:  what `deploy --runtime docker` does: containers made and started, until the last learner is attached to the
           fabric, which control's and the fabric's containers must be there for.
bare:      `create_container` and `start` of the same image with no settings at all, in a loop with as many workers as a
           run has; its first process sleeps.
closed:    the same without a network, as learners have none of Docker's: what remains is what learners add.

All are done in turn, --times times, and what a learner does after it is attached is stopped at once. Prints containers
a second of each (medians), and the first as a share of the others.
Needs an Engine with the image (`testbed build`); figures mean something on an otherwise idle machine only.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures.thread import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.cores import usable_cores
from testbed.engines.fabric.requests import FabricLost
from testbed.engines.fabric.sockets import control_socket
from testbed.engines.fabric.start import FabricConversation
from testbed.engines.privileges import User
from testbed.experiment.language import Experiment
from testbed.image.engine_client import connected
from testbed.node.data.store import cache_folder
from testbed.plan.files import write_plan
from testbed.plan.make import make_plan
from testbed.protocol.fabric import FabricStatus, GetStatus
from testbed.rundir import create_run
from testbed.runtimes.containers.container_paths import sockets_of
from testbed.runtimes.containers.layout import lay_out, remove_sockets
from testbed.runtimes.docker.container_set import WORKERS, ContainerSet, of_run, remove
from testbed.runtimes.docker.containers import LEARNER, Container, containers_of
from testbed.topologies.load import load_bytes
from testbed.topologies.source import Form

if TYPE_CHECKING:
    from docker import DockerClient

TOPOLOGY = (
    "services: {{n: {{replicas: {nodes}}}}}\nbridges: [r]\nlinks: [{{from: n, to: r, latency: 10ms, rate: 10Mbps}}]\n"
)
ASLEEP = ["sleep", "600"]
PATIENCE_S = 300.0
LOOK_S = 0.01


def attached(sockets: Path) -> int:
    """Number of learners attached to the fabric; 0 while it has not started."""
    path = control_socket(sockets)
    if not path.exists():
        return 0
    with suppress(FabricLost):
        conversation = FabricConversation(path)
        try:
            answer = conversation.ask(GetStatus)
        finally:
            conversation.close()
        return answer.attached if isinstance(answer, FabricStatus) else 0
    return 0


def learners_s(engine: DockerClient, image: str, containers: Sequence[Container], sockets: Path) -> float:
    """Seconds until the last learner is attached."""
    wanted = sum(each.part == LEARNER for each in containers)
    began_s = time.perf_counter()
    ContainerSet(engine, image).start(containers)
    while attached(sockets) < wanted:
        if time.perf_counter() - began_s > PATIENCE_S:
            raise SystemExit(f"after {PATIENCE_S:g} s only {attached(sockets)} of {wanted} are attached")
        time.sleep(LOOK_S)
    return time.perf_counter() - began_s


def bare_s(engine: DockerClient, image: str, number: int, label: str, network: str | None) -> float:
    """Seconds of a plain loop of SDK calls."""
    host = engine.api.create_host_config(network_mode=network)

    def start(_: int) -> None:
        made = engine.api.create_container(
            image, entrypoint=ASLEEP[:1], command=ASLEEP[1:], labels=dict([label.split("=")]), host_config=host
        )
        engine.api.start(made["Id"])

    began_s = time.perf_counter()
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(start, range(number)))
    return time.perf_counter() - began_s


def a_run(engine: DockerClient, image: str, nodes: int, folder: Path) -> float:
    """Seconds to start the containers of a run, whose learners then wait for a start that never comes."""
    topology = load_bytes(TOPOLOGY.format(nodes=nodes).encode(), Form.YAML, "bench.yaml").require()
    experiment = Experiment.model_validate(
        {"topology": "bench.yaml", "data": {"name": "digits"}, "stop": {"rounds": 9}}
    )
    plan = make_plan(experiment, topology, run_id="bench-containers", runtime="docker", nominal_ms_per_step=200.0)
    run = create_run(folder, plan.run_id)
    write_plan(run, plan)
    began_s = time.perf_counter()
    lay_out(plan, run, usable_cores())
    containers = containers_of(plan, run, User(os.getuid(), os.getgid()), cache_folder())
    laid_out_s = time.perf_counter() - began_s
    try:
        return laid_out_s + learners_s(engine, image, containers, sockets_of(run))
    finally:
        remove(engine, of_run(engine, run.path))
        remove_sockets(run)


def a_loop(engine: DockerClient, image: str, number: int, network: str | None = None) -> float:
    label = f"testbed.bench={os.getpid()}"
    try:
        return bare_s(engine, image, number, label, network)
    finally:
        remove(engine, [each["Id"] for each in engine.api.containers(all=True, filters={"label": label})])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--image", default="testbed:latest")
    options = parser.parse_args()
    learners: list[float] = []
    bare: list[float] = []
    closed: list[float] = []
    cache_folder().mkdir(parents=True, exist_ok=True)  # learners mount it
    with connected() as engine:
        for _ in range(options.times):
            with tempfile.TemporaryDirectory(prefix="testbed-bench-") as folder:
                learners.append(options.nodes / a_run(engine, options.image, options.nodes, Path(folder).resolve()))
            bare.append(options.nodes / a_loop(engine, options.image, options.nodes))
            closed.append(options.nodes / a_loop(engine, options.image, options.nodes, "none"))
    kinds = {"learners": learners, "bare": bare, "closed": closed}
    figures: dict[str, float] = {f"{name}_per_s": statistics.median(found) for name, found in kinds.items()}
    for name, others in (("of_bare", bare), ("of_closed", closed)):
        figures[name] = statistics.median(ours / theirs for ours, theirs in zip(learners, others, strict=True))
    print(json.dumps({"nodes": options.nodes, **{name: round(value, 3) for name, value in figures.items()}}))


if __name__ == "__main__":
    main()
