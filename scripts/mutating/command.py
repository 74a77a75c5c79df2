"""The command `scripts/mutations`: tries what is chosen, or lists what a function could have."""

from __future__ import annotations

import argparse
import signal

from mutating.listing import rows_of
from mutating.rows import read_list
from mutating.stale import Stale
from mutating.trials import try_in_copies


def main(about: str) -> int:
    """`about` is told by `--help`; gives the exit code."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD", help="only what has one of them in its row")
    parser.add_argument("--jobs", type=int, default=1, help="copies to work in at the same time")
    parser.add_argument(
        "--list", nargs=2, metavar=("FILE", "FUNCTION"), help="print the rows that a function could have"
    )
    chosen = parser.parse_args()
    if chosen.list:
        try:
            print(*rows_of(*chosen.list), sep="\n")
        except Stale as problem:
            parser.error(str(problem))
        return 0
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell ignores the first for background commands
        signal.signal(number, signal.default_int_handler)
    wanted = [each for each in read_list() if not chosen.words or any(word in str(each) for word in chosen.words)]
    return try_in_copies(wanted, chosen.jobs)
