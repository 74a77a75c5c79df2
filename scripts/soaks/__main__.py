"""`scripts/soak [NAME] [--case CASE…] [--tries N] [--busy CORES] [--results FILE]`.

Ends with 1 unless all was as good as wanted.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from soaks.listed import ALL
from soaks.soak import ROOT, Soak
from soaks.tries import Conditions, commit_of, read
from soaks.trying import attempted, is_passed, table


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/soak", description="Long checks, which go on where they stopped.")
    parser.add_argument("name", nargs="?", choices=sorted(ALL), help="which; without one they are listed")
    parser.add_argument("--case", action="append", metavar="CASE", help="only this one; may be said more than once")
    parser.add_argument("--tries", type=int, help="of every case; those made already at this commit count")
    parser.add_argument("--busy", type=int, default=0, metavar="CORES", help="keep so many busy with something else")
    parser.add_argument("--results", type=Path, metavar="FILE", help="default: results/soak/NAME.jsonl")
    given = parser.parse_args(words)
    if given.name is None:
        for each in ALL.values():
            print(f"{each.name}: {each.about}\n  cases: {', '.join(case.name for case in each.cases)}")
        return 0
    soak = _of_cases(ALL[given.name], given.case, parser)
    tries = given.tries if given.tries is not None else soak.tries(given.busy)
    file: Path = given.results or ROOT / "results" / "soak" / f"{soak.name}.jsonl"
    conditions = Conditions(soak.name, commit_of(ROOT, file), given.busy)
    try:
        attempted(soak, conditions, tries, file, lambda line: print(line, file=sys.stderr, flush=True))
    except KeyboardInterrupt:
        print("stopped; the same words go on with it", file=sys.stderr)
    done = read(file, conditions)
    print("\n".join(table(soak, done, tries, given.busy)))
    return 0 if is_passed(soak, done, tries, given.busy) else 1


def _of_cases(soak: Soak, names: list[str] | None, parser: argparse.ArgumentParser) -> Soak:
    known = [case.name for case in soak.cases]
    if wrong := sorted(set(names or ()) - set(known)):
        parser.error(f"{soak.name} has no case {', '.join(wrong)}; there are: {', '.join(known)}")
    return soak if names is None else replace(soak, cases=tuple(case for case in soak.cases if case.name in names))


if __name__ == "__main__":
    sys.exit(main())
