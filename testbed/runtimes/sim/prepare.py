"""What a run in virtual time needs before its first instant: data, partition, initial weights, workers.

Takes a `RunPlan`, gives what the nodes compute with; forks the worker processes. Everything that can be wrong with a
researcher's model or data shows here, before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.cores import usable_cores
from testbed.linux import is_linux
from testbed.node.data.dataset import Kind
from testbed.node.data.experiment_data import partition_data
from testbed.node.data.partition import test_parts
from testbed.node.trainer_of import make_trainer
from testbed.plan.model import RunPlan
from testbed.runtimes.sim.compute import Shared
from testbed.runtimes.sim.pool import TrainingPool
from testbed.runtimes.sim.pool_worker import Arena


def _allow_open_files() -> None:
    """Every node has a journal open; usual limits are below a thousand."""
    if not is_linux():
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _workers(asked: int | None) -> int:
    """None where Linux is not: Windows cannot fork, and libraries of macOS do not survive it. Results are the same."""
    if not is_linux():
        return 0
    return usable_cores() if asked is None else asked


@contextmanager
def prepared(plan: RunPlan, *, workers: int | None = None, cache: Path | None = None) -> Iterator[Shared]:
    """Everything that the nodes of the plan share; the workers end with the block."""
    _allow_open_files()
    experiment = plan.experiment
    learners = sum(node.learner is not None for node in plan.nodes)
    data = partition_data(experiment, learners, plan.seed, cache=cache)
    trainer = make_trainer(experiment, data.dataset, plan.seed)
    arena = Arena(len(plan.nodes), trainer.parameters, velocity=experiment.training.momentum > 0)
    pool = TrainingPool(
        trainer,
        arena,
        data.parts,
        test_parts(data.dataset, data.parts),
        samples=experiment.evaluation.samples,
        seed=plan.seed,
        workers=_workers(workers),
    )
    try:
        yield Shared(
            pool=pool,
            arena=arena,
            initial=trainer.initial(),
            samples=data.sizes,
            steps_per_round=tuple(trainer.steps_per_round(size) for size in data.sizes),
            tested_on="own-test" if data.dataset.kind is Kind.RATINGS else "test",
            evaluation_s=plan.ms_per_step / 1000 * experiment.evaluation.samples / experiment.training.batch / 3,
        )
    finally:
        pool.close()
