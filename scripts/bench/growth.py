#!/usr/bin/env python3
"""How cost grows with the number of nodes: scripts/bench/growth.py [sim] [local] [--nodes 8 16 …].

The default experiment, few rounds, on `testbed generate regions --nodes N`, in virtual time and as real processes over
the fabric: seconds from the command until it can start; memory of a learner (PSS; in virtual time of the whole run, by
nodes) and how much the machine's free memory fell; rounds of all nodes a second of real time; processor time of the
network a round: the fabric's, and in virtual time that of the main process, which does all but training.

Prints a table in Markdown and draws docs/pictures/growth.svg. Rows are kept in --rows after each run: what is there
already is not measured again, so that an interrupted call can be repeated, and without anything missing only draws.
Figures mean something on an otherwise idle machine only.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from deployed_run import measure
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from tables import Row, as_markdown, as_text, load

from testbed.node.data.fetch import ensure

NODES = (8, 16, 32, 64, 128, 256, 512, 1024)
ROUNDS = 10
COLOURS = {"sim": "#0072b2", "local": "#d55e00"}
PANELS = {
    "ready_s": "start until ready, s",
    "mib_per_learner": "memory of a learner, MiB (PSS)",
    "node_rounds_per_s": "node·rounds per second",
    "network_s_per_round": "network's processor time of a round, s",
}
PICTURE = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "growth.svg"


def measured(runtime: str, nodes: int, rounds: int, words: Sequence[str]) -> Row:
    """One row of the table."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        topology = Path(folder) / f"regions{nodes}.yaml"
        generate = ("generate", "regions", "--nodes", str(nodes), "-o", str(topology))
        subprocess.run([sys.executable, "-m", "testbed", *generate], check=True, stderr=subprocess.DEVNULL)
        found = measure(str(topology), runtime, words, rounds)
    of_all = found.get("run_pss_mib")
    network = found.get("fabric_ms_per_node_round", found.get("command_ms_per_node_round"))
    assert isinstance(network, float), f"the run of {nodes} nodes was over before it was looked at twice"
    return {
        "runtime": runtime,
        "nodes": nodes,
        "ready_s": found["ready_s"],
        "mib_per_learner": round(of_all / nodes, 1) if isinstance(of_all, float) else found["pss_mib"],
        "memory_fall_mib": found["memory_fall_mib"],
        "node_rounds_per_s": found["node_rounds_per_s"],
        "network_s_per_round": round(network * nodes / 1e3, 3),
        "time_scale": found.get("time_scale"),
        "verdict": found["verdict"],
        "load": load().split()[1],
    }


def draw(rows: Sequence[Row], path: Path) -> None:
    """Four figures by number of nodes, a line for each runtime."""
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "testbed"})
    figure = Figure(figsize=(9.6, 6.4), layout="constrained")
    for axes, (key, title) in zip(figure.subplots(2, 2).flat, PANELS.items(), strict=True):
        for runtime, colour in COLOURS.items():
            points = sorted((_number(row, "nodes"), _number(row, key)) for row in rows if row["runtime"] == runtime)
            if points:
                axes.plot(*zip(*points, strict=True), color=colour, label=runtime, marker="o", markersize=4)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
        nodes = sorted({_number(row, "nodes") for row in rows})
        axes.set_xticks(nodes, [f"{each:g}" for each in nodes])
        axes.set_xlabel("nodes")
        axes.set_title(title, fontsize="medium", loc="left")
        axes.grid(color="#eef0f4")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(frameon=False)
    figure.savefig(path, metadata={"Date": None, "Creator": None})


def _number(row: Row, key: str) -> float:
    return float(row[key] or 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="*", choices=[*COLOURS, []], help="default: both")
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--rows", type=Path, default=Path("growth.json"), metavar="FILE", help="default: growth.json")
    parser.add_argument("--picture", type=Path, default=PICTURE, metavar="FILE", help="another place for the picture")
    parser.add_argument("--deploy", default="", metavar="WORDS", help="more for `deploy`, as in '--time-scale 1'")
    arguments = parser.parse_args()
    words = shlex.split(arguments.deploy)
    ensure("fashion-mnist", tell=lambda said: print(said, file=sys.stderr))
    rows: list[Row] = json.loads(arguments.rows.read_text()) if arguments.rows.exists() else []
    there = {(row["runtime"], row["nodes"]) for row in rows}
    for runtime in arguments.which or COLOURS:
        for nodes in arguments.nodes:
            if (runtime, nodes) not in there:
                rows.append(measured(runtime, nodes, arguments.rounds, words))
                arguments.rows.write_text(as_text(rows, "json"))
                print(as_text(rows[-1:], "table"), file=sys.stderr)
    print(as_markdown(rows))
    draw(rows, arguments.picture)


if __name__ == "__main__":
    main()
