"""`algorithms`: every built-in algorithm in drawn networks, with drawn options, faults and stragglers.

A try is a seed. `python -m soaks.algorithm_runs NAME SEED FOLDER` repeats one.
"""

from __future__ import annotations

from pathlib import Path

from soaks.algorithm_runs.attempt import tried
from soaks.algorithm_runs.story import drawn
from soaks.soak import Case, Soak, Verdict
from testbed.catalogue.algorithms import ALGORITHMS

LOCAL = " in local"
_LOCAL_TRIES = 20


def _case(algorithm: str, runtime: str) -> Case:
    def attempt(folder: Path, number: int) -> Verdict:
        return tried(drawn(algorithm, number), folder, runtime)

    is_local = runtime == "local"
    return Case(algorithm + LOCAL if is_local else algorithm, attempt, at_most=_LOCAL_TRIES if is_local else None)


SOAK = Soak(
    name="algorithms",
    about="delays, losses, faults and stragglers, drawn from seeds: no deadlock, nothing averaged twice, no byte lost",
    cases=tuple(_case(algorithm, runtime) for runtime in ("sim", "local") for algorithm in ALGORITHMS),
    tries=lambda _: 500,
    wanted=lambda tries, _: tries,
)
