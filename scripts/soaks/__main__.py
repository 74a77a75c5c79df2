"""`scripts/soak [NAME] [--tries N] [--busy CORES] [--results FILE]`; ends with 1 unless all was as good as wanted."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from soaks.listed import ALL
from soaks.soak import ROOT, Soak
from soaks.tries import Conditions, commit_of, read
from soaks.trying import attempted, is_passed, table


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/soak", description="Long checks, which go on where they stopped.")
    parser.add_argument("name", nargs="?", choices=sorted(ALL), help="which; without one they are listed")
    parser.add_argument("--tries", type=int, help="of every case; those made already at this commit count")
    parser.add_argument("--busy", type=int, default=0, metavar="CORES", help="keep so many busy with something else")
    parser.add_argument("--results", type=Path, metavar="FILE", help="default: results/soak/NAME.jsonl")
    given = parser.parse_args(words)
    if given.name is None:
        for each in ALL.values():
            print(f"{each.name}: {each.about}\n  cases: {', '.join(case.name for case in each.cases)}")
        return 0
    soak: Soak = ALL[given.name]
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


if __name__ == "__main__":
    sys.exit(main())
