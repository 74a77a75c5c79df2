"""Whether tests notice: mutations are tried group by group in copies of the checkout, and judged.

Takes mutations, gives a `Result` for each, prints them as they come, and a summary of the gates at the end.
"""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from mutating.rows import Mutation
from mutating.stale import Stale
from mutating.trees import Ran, Tree

ATTEMPTS = 2
"""Of the tests while nothing is broken: this machine may be busy."""
FAILED = re.compile(r"^(?:FAILED|ERROR) \S+?::(\S+)", re.MULTILINE)


class Verdict(StrEnum):
    """What came of a mutation."""

    NOTICED = "noticed"
    SURVIVES = "SURVIVES"
    STALE = "STALE"
    """The row does not say one thing of the file."""
    FAILS_ANYWAY = "FAILS ANYWAY"
    """The tests fail while nothing is broken: they cannot notice anything."""
    NOT_A_TEST = "NOT A TEST"
    """Pytest finds none, or they cannot even be read while it is broken."""
    SKIPPED = "skipped"
    """This machine denies what all of its tests need."""


class Result(NamedTuple):
    mutation: Mutation
    verdict: Verdict
    detail: str


def try_in_copies(wanted: Sequence[Mutation], jobs: int) -> int:
    """Try all of them in so many copies at the same time; the exit code."""
    groups: defaultdict[str, list[Mutation]] = defaultdict(list)
    for mutation in wanted:
        groups[mutation.tests].append(mutation)
    with tempfile.TemporaryDirectory(prefix="m-") as folder, ThreadPoolExecutor(jobs) as pool:
        Path(folder).chmod(0o755)  # some tests run as another user for a while
        made = [Tree(Path(folder) / str(number)) for number in range(jobs)]
        trees: SimpleQueue[Tree] = SimpleQueue()
        for tree in made:
            trees.put(tree)

        def work(group: list[Mutation]) -> list[Result]:
            tree = trees.get()
            try:
                found = []
                for result in try_group(group, tree):
                    tell(result)
                    found.append(result)
                return found
            finally:
                trees.put(tree)

        try:
            results = [result for found in pool.map(work, groups.values()) for result in found]
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for tree in made:
                tree.close()
            return 130
    return conclude(sorted(results, key=lambda result: wanted.index(result.mutation)))


def try_group(mutations: Sequence[Mutation], tree: Tree) -> Iterator[Result]:
    """All of them have the same tests."""
    whole = Ran(None, "")
    for _ in range(ATTEMPTS):
        whole = tree.test(mutations[0].tests)
        if whole.status == 0:
            break
    for mutation in mutations:
        if tree.is_over():
            return
        result = _try(mutation, whole, tree)
        if tree.is_over():
            return
        yield result


def _try(mutation: Mutation, whole: Ran, tree: Tree) -> Result:
    """`whole` is what came of its tests while nothing was broken."""
    try:
        text = tree.text_of(mutation)
    except Stale as problem:
        return Result(mutation, Verdict.STALE, str(problem))
    if whole.status in (4, 5):
        return Result(mutation, Verdict.NOT_A_TEST, mutation.tests)
    if whole.status != 0:
        return Result(mutation, Verdict.FAILS_ANYWAY, ", ".join(FAILED.findall(whole.said)) or mutation.tests)
    if " passed" not in whole.said:
        return Result(mutation, Verdict.SKIPPED, mutation.tests)
    try:
        with tree.with_text(mutation, text):
            return judged(mutation, tree.test(mutation.tests))
    except Stale as problem:
        return Result(mutation, Verdict.STALE, str(problem))


def judged(mutation: Mutation, ran: Ran) -> Result:
    match ran.status:
        case 0:
            return Result(mutation, Verdict.SURVIVES, mutation.tests)
        case 1:
            return Result(mutation, Verdict.NOTICED, ", ".join(FAILED.findall(ran.said)))
        case None:
            return Result(mutation, Verdict.NOTICED, "the tests never ended")
        case _:
            return Result(mutation, Verdict.NOT_A_TEST, ran.said.strip().splitlines()[-1])


def tell(result: Result) -> None:
    print(f"{result.verdict:<9} {result.mutation}  [{result.detail}]", flush=True)


def conclude(results: Sequence[Result]) -> int:
    """A line for every gate, and then whatever was not noticed."""
    print()
    by_gate: defaultdict[str, list[Result]] = defaultdict(list)
    for result in results:
        by_gate[result.mutation.gate].append(result)
    for gate, found in by_gate.items():
        noticed = sum(each.verdict is Verdict.NOTICED for each in found)
        print(f"{gate:<20} {noticed:>3} of {len(found):>3} noticed")
    bad = [each for each in results if each.verdict not in (Verdict.NOTICED, Verdict.SKIPPED)]
    skipped = sum(each.verdict is Verdict.SKIPPED for each in results)
    print(f"{'all':<20} {len(results) - len(bad) - skipped:>3} of {len(results):>3} noticed, {skipped} skipped\n")
    for each in bad:
        tell(each)
    return 1 if bad else 0
