#!/usr/bin/env python3
"""How long it takes to load a topology and to collapse all its paths, and how much memory.

Every case runs in a process of its own: seconds to start (imports), to load the file, to compute the paths of all
pairs of nodes, the peak of the process's memory after that, and how many times longer networkx would take for all
pairs (from some sources, scaled up, in the same process). Then `testbed validate` of files of 20 000 links, as a
command. Needs the package installed (`./scripts/quickstart`).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random

Ends = tuple[str, str]
SAMPLED_SOURCES = 8
VALIDATED_LINKS = 20_000


def star(size: int) -> tuple[list[str], list[str], Iterable[Ends]]:
    """Services around one bridge."""
    services = [f"s{number}" for number in range(size)]
    return services, ["hub"], ((service, "hub") for service in services)


def scale_free(size: int) -> tuple[list[str], list[str], Iterable[Ends]]:
    """A Barabási–Albert graph of half as many bridges, every service behind a bridge drawn at random."""
    bridges = [f"b{number}" for number in range(size // 2)]
    services = [f"s{number}" for number in range(size)]
    draw = Random(1)  # noqa: S311 - a benchmark's input, not a secret
    access = [(service, draw.choice(bridges)) for service in services]
    return services, bridges, [*preferential(bridges, draw), *access]


def scale_free_services(size: int) -> tuple[list[str], list[str], Iterable[Ends]]:
    """A Barabási–Albert graph whose vertices are the services."""
    services = [f"s{number}" for number in range(size)]
    return services, [], preferential(services, Random(1))  # noqa: S311


def random_links(size: int) -> tuple[list[str], list[str], Iterable[Ends]]:
    """As many links between random services as `validate` is measured with."""
    services = [f"s{number}" for number in range(size)]
    draw = Random(1)  # noqa: S311
    pairs: set[Ends] = set()
    while len(pairs) < VALIDATED_LINKS:
        one, other = sorted(draw.sample(services, 2))
        pairs.add((one, other))
    return services, [], sorted(pairs)


def preferential(names: list[str], draw: Random) -> Iterator[Ends]:
    """Every vertex from the third on is linked to two earlier ones, drawn by the number of their links."""
    ends = [names[0], names[1]]
    for name in names[2:]:
        first = second = draw.choice(ends)
        while second == first:
            second = draw.choice(ends)
        ends += [name, first, name, second]
        yield name, first
        yield name, second


SHAPES: dict[str, Callable[[int], tuple[list[str], list[str], Iterable[Ends]]]] = {
    "star": star,
    "scale-free": scale_free,
    "scale-free-services": scale_free_services,
    "random": random_links,
}
VALIDATED = (("star", VALIDATED_LINKS), ("random", 5000), ("random", 1000))


def write_xml(path: Path, shape: str, size: int) -> None:
    services, bridges, ends = SHAPES[shape](size)
    draw = Random(2)  # noqa: S311
    with path.open("w") as file:
        file.write('<experiment boot="kollaps:2.0">\n <services>\n')
        file.writelines(f'  <service name="{name}" image="testbed-node:latest"/>\n' for name in services)
        file.write(" </services>\n <bridges>\n")
        file.writelines(f'  <bridge name="{name}"/>\n' for name in bridges)
        file.write(" </bridges>\n <links>\n")
        for origin, dest in ends:
            latency, rate = draw.randrange(1, 50), draw.randrange(10, 1000)
            file.write(
                f'  <link origin="{origin}" dest="{dest}" latency="{latency}" upload="{rate}Mbps" '
                f'download="{rate}Mbps" jitter="0.1" drop="0.001" network="kollaps_network"/>\n'
            )
        file.write(" </links>\n</experiment>\n")


def measure(file: str) -> dict[str, float]:
    """Measures one case in this process."""
    started = time.perf_counter()
    from testbed.network.graph import expand
    from testbed.network.paths import compute_paths
    from testbed.topologies.load import load

    imported = time.perf_counter()
    topology = load(file).require()
    loaded = time.perf_counter()
    network = expand(topology)
    paths = compute_paths(network)
    done = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    heaviest = float(network.latency_ms.sum()) + 1
    for origin, dest, latency in zip(network.origin, network.dest, network.latency_ms, strict=True):
        graph.add_edge(int(origin), int(dest), weight=heaviest + float(latency))
    step = max(1, network.node_count // SAMPLED_SOURCES)
    sources = range(0, network.node_count, step)
    begun = time.perf_counter()
    for source in sources:
        lengths = nx.single_source_dijkstra_path_length(graph, source)
        assert len(lengths) == len(network.names)
    theirs = (time.perf_counter() - begun) * network.node_count / len(sources)
    assert bool((paths.hops >= 0).all())
    return {
        "import": imported - started,
        "load": loaded - imported,
        "paths": done - loaded,
        "peak_mib": peak,
        "networkx": theirs / (done - loaded),
    }


def measured_apart(file: Path) -> dict[str, float]:
    """Measures one case in a fresh process."""
    output = subprocess.run([sys.executable, __file__, "--measure", str(file)], check=True, stdout=subprocess.PIPE)
    found: dict[str, float] = json.loads(output.stdout)
    return found


def validate(file: Path) -> tuple[float, int]:
    """Seconds and exit code of the command."""
    program = "from testbed.cli.main import main; main()"
    started = time.perf_counter()
    status = subprocess.run([sys.executable, "-c", program, "validate", str(file)], capture_output=True, check=False)
    return time.perf_counter() - started, status.returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1024, 4096], help="numbers of services")
    parser.add_argument("--measure", metavar="FILE", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure)))
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "topology.xml"
        print("| topology | import s | load s | all pairs s | load + all pairs s | peak MiB | networkx takes |")
        print("|---|---|---|---|---|---|---|")
        for size in arguments.sizes:
            for shape in ("star", "scale-free", "scale-free-services"):
                write_xml(file, shape, size)
                found = measured_apart(file)
                print(
                    f"| {shape} {size} | {found['import']:.2f} | {found['load']:.2f} | {found['paths']:.2f} "
                    f"| {found['load'] + found['paths']:.2f} | {found['peak_mib']:.0f} | × {found['networkx']:.0f} |",
                    flush=True,
                )
        print(f"\n| validate, {VALIDATED_LINKS} links | s | exit code |\n|---|---|---|")
        for shape, size in VALIDATED:
            write_xml(file, shape, size)
            seconds, status = validate(file)
            print(f"| {shape} {size} | {seconds:.2f} | {status} |", flush=True)


if __name__ == "__main__":
    main()
