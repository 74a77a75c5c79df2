"""The command `scripts/fidelity`: measures, and prints tables or JSON."""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tables import load

from fidelities import network
from fidelities.cases import Case, chosen
from fidelities.virtual_time import Failed, document, merged, read_rows, run, table, write_whole
from testbed.engines.fabric.planes import PLANES
from testbed.engines.namespace import TcpSettings
from testbed.engines.network_check import what_is_denied
from testbed.errors import TestbedError

SEEDS = 3
DENIED, MISSED, INTERRUPTED = 4, 7, 130
_NETWORK = "network"


def main(about: str, words: Sequence[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(
        prog="fidelity", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--format", choices=("table", "json"), default="table", help="how to print the rows")
    try:
        if words[:1] == [_NETWORK]:
            return _network(parser, words[1:])
        return _virtual_time(parser, words)
    except (TestbedError, Failed) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return problem.exit_code if isinstance(problem, TestbedError) else 1
    except KeyboardInterrupt:
        return INTERRUPTED


def _is_denied() -> bool:
    denied = what_is_denied(TcpSettings())
    if denied is not None:
        print(f"error: {denied}", file=sys.stderr)
    return denied is not None


def _tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def _network(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    parser.add_argument("--plane", choices=[*PLANES, "all"], default="all", help="data plane of the fabric")
    given = parser.parse_args(words)
    if _is_denied():
        return DENIED
    fidelities = []
    loads = [load()]
    for plane in PLANES if given.plane == "all" else [given.plane]:
        began_s = time.monotonic()
        fidelities.append(network.measure(plane))
        loads.append(load())
        _tell(f"{plane}: {time.monotonic() - began_s:.0f} s, {loads[-1]}")
        for why in fidelities[-1].overloaded:
            _tell(f"{plane}: too slow: {why}")
    if given.format == "json":
        found = {"measured_on": _today(), "loads": loads, "planes": [asdict(each) for each in fidelities]}
        print(json.dumps(found, indent=1))
    else:
        print(network.tables(fidelities))
    return 0


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def _virtual_time(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    parser.add_argument("words", nargs="*", help="which of the cases; without any all of them")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="of lossy cases in `local`")
    parser.add_argument("--list", action="store_true", help="print the cases' words, run nothing")
    parser.add_argument("--results", type=Path, metavar="FOLDER", help="keep the run directories there")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="merge into the JSON there after every case")
    parser.add_argument(
        "--resume", action="store_true", help="leave out cases of which FILE has a valid run: go on where a call ended"
    )
    parser.add_argument(
        "--measured",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="JSON of earlier calls: only `sim` runs anew",
    )
    arguments = parser.parse_args(words)
    try:
        cases = chosen(arguments.words)
    except ValueError as problem:
        parser.error(str(problem))
    if arguments.resume and arguments.output is None:
        parser.error("--resume needs -o FILE")
    wanted = [case.words for case in cases]
    measured = {words: row.local for words, row in read_rows(arguments.measured).items()}
    rows = read_rows([arguments.output] if arguments.output is not None and arguments.output.exists() else [])
    if arguments.measured:
        cases = [case for case in cases if case.words in measured]
    if arguments.resume:
        cases = [case for case in cases if case.words not in rows or rows[case.words].local.overloaded]
    if arguments.list:
        print("\n".join(" ".join(case.words) for case in cases))
        return 0
    if not arguments.measured and _is_denied():
        return DENIED
    with tempfile.TemporaryDirectory(prefix="fidelity-") as temporary:
        folder = arguments.results or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for number, case in enumerate(cases, 1):
            began = time.monotonic()

            def tell(words: str, number: int = number, case: Case = case, began: float = began) -> None:
                after = f"{time.monotonic() - began:.0f} s"
                _tell(f"{number}/{len(cases)} {' '.join(case.words)}: {words} ({after})")

            new = run(case, folder, measured.get(case.words), range(1, arguments.seeds + 1), tell)
            rows = merged(rows, new)
            if arguments.output is not None:
                write_whole(arguments.output, document(rows.values()) + "\n")
    told = [rows[words] for words in wanted if words in rows]
    print(document(told) if arguments.format == "json" else table(told))
    return 0 if all(row.holds for row in told) else MISSED
