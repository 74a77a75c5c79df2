#!/usr/bin/env python3
"""What runs of real processes cost: scripts/bench/local.py [loopback] [wan].

loopback: D-PSGD, Fashion-MNIST, GN-LeNet for 28×28, batch 8, one local step a round, 5-regular overlay, plain loopback
          (engine `none`), evaluation off, as fast as it goes (`measured`); for every number of --nodes. `of_bare`
          is its rounds of all nodes a second, by those of bare loops of the same steps on all cores, before and after.
wan:      the default experiment on --topology (wan256) over the fabric, few rounds; --runtime docker: in containers.

Of both: seconds from the command to the start barrier; how long after the moment that this barrier sets the nodes have
begun, the median and the last one; seconds of a round, and rounds of all nodes a second, from the moment when the
slowest has done its first round; memory (PSS) of a node, and of what else the run has; how much the machine's free
memory fell; processor time of a node's process a round, and of that what is neither training nor evaluation.

Of `wan` also processor time of the fabric a frame and a round; packets a frame; segments a data frame and the share of
bare acknowledgements, among the frames that the fabric reads and among those that it writes, captured at --captured
nodes; how late packets were; the time scale and the verdict.

A figure means something on an otherwise idle machine only.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import yaml
from deployed_run import measure
from tables import Row, as_text, load

from testbed.experiment.language import Experiment
from testbed.node.data.fetch import ensure

NODES = (8, 16, 32, 64, 128, 256)
LOOPBACK_ROUNDS = 100
WAN_ROUNDS = 10
CAPTURED = 4
BARE_STEPS = 1280
"""Of all learners, in the bare loops before a run and in those after it."""
LOOPBACK = """
services:
  n: {{replicas: {nodes}}}
bridges: [r]
links: [{{from: n, to: r, latency: 0ms, rate: 10Gbps}}]
"""
SETTINGS = {
    "algorithm": {"name": "dpsgd"},
    "overlay": {"kind": "regular", "degree": 5},
    "data": {"name": "fashion-mnist", "partition": {"kind": "iid"}},
    "model": {"name": "gn-lenet"},
    "training": {"batch": 8, "steps": 1, "lr": 0.05},
    "compute": {"mode": "measured"},
    "evaluation": {"mode": "none"},
}


def loopback(nodes: int, rounds: int, words: Sequence[str]) -> Row:
    """One run between two bare loops of the same training."""
    from bare_training import bare_training  # brings torch

    with tempfile.TemporaryDirectory() as folder:
        topology, experiment = Path(folder) / "loopback.yaml", Path(folder) / "experiment.yaml"
        topology.write_text(LOOPBACK.format(nodes=nodes))
        document = {"topology": str(topology), **SETTINGS}
        experiment.write_text(yaml.safe_dump(document))
        asked = Experiment.model_validate(document)

        def bare() -> float:
            return bare_training(asked, nodes, seed=1, rounds=max(3, BARE_STEPS // nodes), steps=1).steps_per_s

        before = bare()
        found = measure(str(experiment), "local", ["--engine", "none", *words], rounds)
        after = bare()
    speed, bare_speed = float(found["node_rounds_per_s"] or 0), (before + after) / 2
    return {
        "what": "loopback",
        "of_bare": round(speed / bare_speed, 3),
        "bare_per_s": round(bare_speed, 1),
        "bare_before_over_after": round(before / after, 2),
        **found,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="*", choices=["loopback", "wan", []], help="default: both")
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES, help="of `loopback`")
    parser.add_argument("--topology", default="topologies/wan256.xml", help="of `wan`")
    parser.add_argument("--runtime", choices=["local", "docker"], default="local", help="of `wan`")
    parser.add_argument("--rounds", type=int, help="other than the figures are defined for")
    parser.add_argument(
        "--captured", type=int, default=CAPTURED, metavar="N", help="nodes captured for a round of `wan`"
    )
    parser.add_argument("--format", choices=["table", "list", "json"], default="list")
    parser.add_argument("--deploy", default="", metavar="WORDS", help="more for `deploy`, as in '--time-scale 1'")
    arguments = parser.parse_args()
    words = shlex.split(arguments.deploy)
    ensure("fashion-mnist", tell=lambda said: print(said, file=sys.stderr))
    which = arguments.which or ["loopback", "wan"]
    rows: list[Row] = []
    print(load(), file=sys.stderr)
    if "loopback" in which:
        for nodes in arguments.nodes:
            print(f"loopback, {nodes} nodes", file=sys.stderr)
            rows.append(loopback(nodes, arguments.rounds or LOOPBACK_ROUNDS, words))
    if "wan" in which:
        print(f"wan, {arguments.topology}", file=sys.stderr)
        found = measure(
            arguments.topology, arguments.runtime, words, arguments.rounds or WAN_ROUNDS, arguments.captured
        )
        rows.append({"what": arguments.topology} | found)
    print(as_text(rows, arguments.format))
    print(load(), file=sys.stderr)


if __name__ == "__main__":
    main()
