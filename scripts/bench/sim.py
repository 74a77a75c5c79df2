#!/usr/bin/env python3
"""How fast virtual time is, and how much memory it needs: scripts/bench/sim.py [training] [network] [whole] [memory].

training: 64 nodes × ROUNDS rounds of D-PSGD (GN-LeNet 28×28, batch 8, 5 steps), as a ratio to the bare training loops
          on the same cores in the same run. Both do the same arithmetic. `ratio` is of what a clock shows, and means
          something on an otherwise idle machine only; `processor_ratio` is of processor time.
network:  256 nodes × ROUNDS rounds over wan256, 5-regular, 1 MB models, training and averaging switched off.
whole:    wan256 with all defaults, evaluation included: `ratio` is the time of the run ÷ that of the same steps and
          the same evaluations in bare loops on both cores, which run before and after it. Planning and starting do not
          count.
memory:   1024 nodes over wan1024, a few rounds: the parent's and the workers' share of memory.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from bare_training import CORES, BareTraining, bare_evaluations_per_s, bare_training, processor_s
from process_figures import sum_pss_mib

from testbed.experiment.language import Experiment
from testbed.node.data.fetch import ensure
from testbed.plan.files import write_plan
from testbed.plan.make import make_plan
from testbed.plan.model import RunPlan
from testbed.rundir import create_run
from testbed.runtimes.sim.compute import Shared
from testbed.runtimes.sim.prepare import prepared
from testbed.runtimes.sim.run import SimRun
from testbed.runtimes.tracking.proc_stat import descendants_of
from testbed.topologies.bundled import find_bundled
from testbed.topologies.load import load

MODEL_BYTES = 1_000_000


def plan_of(topology: str, rounds: int, **settings: Any) -> RunPlan:
    found = find_bundled(f"topologies/{topology}.xml")
    assert found is not None
    experiment = Experiment.model_validate(
        {
            "topology": f"topologies/{topology}.xml",
            "stop": {"rounds": rounds},
            "evaluation": {"mode": "none"},
            "data": {"name": "fashion-mnist", "partition": {"kind": "iid"}},
            **settings,
        }
    )
    return make_plan(experiment, load(found).require(), run_id="bench", runtime="sim", nominal_ms_per_step=20.0)


def timed(plan: RunPlan, shared: Shared) -> tuple[float, float]:
    """Real and emulated seconds of a run."""
    with tempfile.TemporaryDirectory() as folder:
        directory = create_run(Path(folder), "bench")
        write_plan(directory, plan)
        whole = SimRun(plan, directory, shared)
        began = perf_counter()
        outcome = whole.run()
        assert outcome.reason == "finished", outcome
        return perf_counter() - began, outcome.t


_BARE_ROUNDS = 5


def bare(plan: RunPlan) -> BareTraining:
    return bare_training(plan.experiment, len(plan.learners), plan.seed, _BARE_ROUNDS, steps=5)


def training(rounds: int) -> dict[str, float]:
    ensure("fashion-mnist", tell=lambda words: print(words, file=sys.stderr))
    plan = plan_of("wan64", rounds)
    before, before_s = bare(plan)
    workers_before = processor_s(resource.RUSAGE_CHILDREN)
    with prepared(plan, workers=CORES) as shared:
        main_before = processor_s(resource.RUSAGE_SELF)
        real_s, emulated_s = timed(plan, shared)
        main_s = processor_s(resource.RUSAGE_SELF) - main_before
    workers_s = processor_s(resource.RUSAGE_CHILDREN) - workers_before
    after, after_s = bare(plan)
    steps = 64 * rounds * 5
    return {
        "rounds": rounds,
        "real_s": real_s,
        "emulated_s": emulated_s,
        "bare_steps_per_s": (before + after) / 2,
        "bare_before_over_after": before / after,
        "steps_per_s": steps / real_s,
        "ratio": steps / real_s / ((before + after) / 2),
        "processor_ms_per_step_bare": (before_s + after_s) / 2 * 1e3,
        "processor_ms_per_step_workers": workers_s / steps * 1e3,
        "processor_ms_per_step_main": main_s / steps * 1e3,
        "processor_ratio": (before_s + after_s) / 2 * steps / (workers_s + main_s),
    }


class _Nothing:
    """A pool that computes nothing."""

    def __init__(self) -> None:
        self.score = None

    def train(self, *_: object) -> _Nothing:
        return self

    def result(self) -> float:
        return 0.0


class _Rows:
    def __init__(self, vector: np.ndarray[Any, Any]) -> None:
        self.model = self.trained = _Same(vector)
        self.velocity = None


class _Same:
    """Every row is the same vector."""

    def __init__(self, vector: np.ndarray[Any, Any]) -> None:
        self._vector = vector

    def __getitem__(self, _row: int) -> np.ndarray[Any, Any]:
        return self._vector


def network(rounds: int) -> dict[str, float]:
    code = f"{Path(__file__).parent / 'exchange_only.py'}:ExchangeOnly"
    plan = plan_of("wan256", rounds, algorithm={"name": code}, overlay={"kind": "regular", "degree": 5})
    vector = np.zeros(MODEL_BYTES // 4, dtype=np.float32)
    idle: Any = _Nothing()
    rows: Any = _Rows(vector)
    shared = Shared(idle, rows, vector, (234,) * 256, (5,) * 256, "test", 0.0)
    real_s, emulated_s = timed(plan, shared)
    return {"rounds": rounds, "messages": 256 * 5 * rounds, "real_s": real_s, "emulated_s": emulated_s}


def whole(rounds: int) -> dict[str, float]:
    ensure("fashion-mnist", tell=lambda words: print(words, file=sys.stderr))
    plan = plan_of("wan256", rounds, evaluation={}, data={"name": "fashion-mnist"})
    evaluations = (len(plan.learners) + 1) * -(-rounds // plan.experiment.evaluation.every)
    steps = len(plan.learners) * rounds * 5

    def bare_s() -> float:
        evaluations_s = evaluations / bare_evaluations_per_s(plan.experiment, len(plan.learners), plan.seed)
        return steps / bare(plan).steps_per_s + evaluations_s

    before_s = bare_s()
    with prepared(plan, workers=CORES) as shared:
        real_s, emulated_s = timed(plan, shared)
    after_s = bare_s()
    return {
        "rounds": rounds,
        "real_s": real_s,
        "emulated_s": emulated_s,
        "evaluations": evaluations,
        "bare_s": (before_s + after_s) / 2,
        "bare_before_over_after": before_s / after_s,
        "ratio": 2 * real_s / (before_s + after_s),
    }


def memory(rounds: int) -> dict[str, float]:
    ensure("fashion-mnist", tell=lambda words: print(words, file=sys.stderr))
    plan = plan_of("wan1024", rounds, training={"steps": 1, "batch": 8})
    peak = 0.0
    with prepared(plan, workers=CORES) as shared, _sampling() as peaks:
        real_s, _ = timed(plan, shared)
        peak = max(peaks)
    return {"rounds": rounds, "real_s": real_s, "peak_pss_mib": peak}


@contextmanager
def _sampling() -> Iterator[list[float]]:
    """The proportional share of this process and its children, in MiB, looked at several times a second."""
    from threading import Event, Thread

    peaks: list[float] = [0.0]
    over = Event()

    def watch() -> None:
        while not over.wait(0.5):
            peaks.append(sum_pss_mib([os.getpid(), *descendants_of(os.getpid())]) or 0.0)

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        over.set()
        thread.join()


BENCHES = {"training": (training, 50), "network": (network, 100), "whole": (whole, 50), "memory": (memory, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="*", choices=[*BENCHES, []], help="default: all")
    parser.add_argument("--rounds", type=int, help="fewer rounds than the figure is defined for")
    arguments = parser.parse_args()
    for name in arguments.which or BENCHES:
        bench, rounds = BENCHES[name]
        print(json.dumps({name: bench(arguments.rounds or rounds)}), flush=True)


if __name__ == "__main__":
    main()
