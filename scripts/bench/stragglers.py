#!/usr/bin/env python3
"""Asynchronous algorithms with slow links, in virtual time: scripts/bench/stragglers.py [SCENE …] [--seeds N].

32 nodes learn digits (two classes each) with a perceptron of 2410 parameters; an iteration takes 1 s. A star: a model
needs a given time on a fast link, and five times as long on a slow one; one message at a time leaves a node. The
scenes: `even` (0.12 s, no slow links), `half` (0.12 s, half of the links slow), `loaded` (0.4 s, no slow links). For
each algorithm and outbox: mean accuracy of all nodes after 80 s, when the mean first reached 0.6 (each node counts with
its latest evaluation), and the bytes that a node has sent.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from math import inf
from pathlib import Path
from statistics import mean

import msgspec
from tables import as_markdown, load

from testbed.experiment.language import Experiment
from testbed.plan.files import write_plan
from testbed.plan.make import make_plan
from testbed.records import AnyRecord, End, Evaluation
from testbed.rundir import create_run
from testbed.runtimes.sim.prepare import prepared
from testbed.runtimes.sim.run import SimRun
from testbed.topologies.load import load_bytes
from testbed.topologies.source import Form

NODES, UNTIL_S, TARGET = 32, 80.0, 0.6
MODEL_BITS = 2410 * 4 * 8
SLOWER = 5
SCENES: dict[str, tuple[float, int]] = {"even": (0.12, 0), "half": (0.12, NODES // 2), "loaded": (0.4, 0)}
"""Seconds of a model on a fast link, and how many links are slow."""
RECIPIENTS = 5
VARIANTS: dict[str, tuple[dict[str, object], str]] = {
    "divshare Ω 0.1": ({"name": "divshare", "fraction": 0.1, "recipients": RECIPIENTS}, "flush"),
    "divshare Ω 0.5": ({"name": "divshare", "fraction": 0.5, "recipients": RECIPIENTS}, "flush"),
    "divshare Ω 1": ({"name": "divshare", "fraction": 1.0, "recipients": RECIPIENTS}, "flush"),
    "divshare Ω 0.1, fifo": ({"name": "divshare", "fraction": 0.1, "recipients": RECIPIENTS}, "fifo"),
    "swift-random": ({"name": "swift-random", "recipients": RECIPIENTS}, "fifo"),
    "swift-random, flush": ({"name": "swift-random", "recipients": RECIPIENTS}, "flush"),
    "adpsgd-pushpull, fifo": ({"name": "adpsgd-pushpull", "fanout": RECIPIENTS // 2}, "fifo"),
    "adpsgd-pushpull": ({"name": "adpsgd-pushpull", "fanout": RECIPIENTS // 2}, "flush"),
    "adpsgd": ({"name": "adpsgd"}, "fifo"),
}
"""Algorithm and outbox policy."""
_RECORD = msgspec.json.Decoder(AnyRecord)


def topology(scene: str) -> bytes:
    fast_s, slow = SCENES[scene]
    rate = MODEL_BITS / fast_s
    services = {"fast": (NODES - slow, rate), "slow": (slow, rate / SLOWER)}
    lines = ["services:", *(f"  {name}: {{replicas: {count}}}" for name, (count, _) in services.items() if count)]
    lines += ["bridges: [hub]", "links:"]
    lines += [
        f"  - {{from: {name}, to: hub, latency: 1ms, rate: {bps:.0f}bps}}"
        for name, (count, bps) in services.items()
        if count
    ]
    return "\n".join(lines).encode()


def one(case: tuple[str, str, int]) -> tuple[float, float, float]:
    """Accuracy at the end, the time to the target (infinite if it was not reached), and kB sent by a node."""
    scene, variant, seed = case
    algorithm, policy = VARIANTS[variant]
    experiment = Experiment.model_validate(
        {
            "topology": "star.yaml",
            "algorithm": algorithm,
            "data": {"name": "digits", "partition": {"kind": "shards", "per_node": 2}},
            "model": {"name": "mlp", "hidden": [32]},
            "training": {"lr": 0.1, "batch": 8, "steps": 5},
            "overlay": {"kind": "full"} if algorithm["name"] == "adpsgd" else {},
            "compute": {"ms_per_step": 200},
            "outbox": {"policy": policy, "in_flight": 1},
            "stop": {"time": f"{UNTIL_S:g}s"},
            "evaluation": {"every": 1},
            "seed": seed,
        }
    )
    plan = make_plan(
        experiment,
        load_bytes(topology(scene), Form.YAML, "star.yaml").require(),
        run_id="bench",
        runtime="sim",
        nominal_ms_per_step=200.0,
    )
    with tempfile.TemporaryDirectory() as folder:
        directory = create_run(Path(folder), "bench")
        write_plan(directory, plan)
        with prepared(plan, workers=0) as shared:
            SimRun(plan, directory, shared).run()
        journals = [directory.node(node.name).journal.read_bytes() for node in plan.nodes]
    nodes = [[_RECORD.decode(line) for line in journal.splitlines()] for journal in journals]
    scores = [
        (each.t, rank, each.accuracy)
        for rank, found in enumerate(nodes)
        for each in found
        if isinstance(each, Evaluation)
    ]
    sent = [each.sent for found in nodes for each in found if isinstance(each, End)]
    latest = dict.fromkeys(range(NODES), 0.0)
    reached = inf
    for t, rank, accuracy in sorted(scores):
        latest[rank] = accuracy or 0.0
        if mean(latest.values()) >= TARGET:
            reached = min(reached, t)
    return mean(latest.values()), reached, mean((each.payload + each.metadata) / 1000 for each in sent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("scenes", nargs="*", choices=[*SCENES, []], default=[])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--processes", type=int, default=1)
    chosen = parser.parse_args()
    scenes, seeds = chosen.scenes or list(SCENES), range(1, chosen.seeds + 1)
    cases = list(product(scenes, VARIANTS, seeds))
    found = {}
    with ProcessPoolExecutor(chosen.processes) as pool:
        for number, (case, result) in enumerate(zip(cases, pool.map(one, cases), strict=True), start=1):
            found[case] = result
            print(f"{number} of {len(cases)}: {case} {result}", file=sys.stderr)
    rows = []
    for variant in VARIANTS:
        row: dict[str, float | int | str | None] = {"algorithm": variant}
        for scene in scenes:
            accuracy, reached, kilobytes = zip(*(found[scene, variant, seed] for seed in seeds), strict=True)
            row[f"{scene}: accuracy"] = f"{mean(accuracy):.3f}"
            row[f"{scene}: time to {TARGET}"] = "never" if inf in reached else f"{mean(reached):.0f} s"
            row[f"{scene}: sent"] = f"{mean(kilobytes):.0f} kB"
        rows.append(row)
    print(as_markdown(rows))
    print(load())


if __name__ == "__main__":
    main()
