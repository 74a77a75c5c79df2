"""The pool: results that depend on nothing but the job, and no wait for a dead worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from select import PIPE_BUF

import numpy as np
import pytest

from testbed.code import CodeProblem
from testbed.node.data.dataset import DataSet, Kind, Samples
from testbed.node.training import Score, Settings, Trainer, TrainingFailed
from testbed.runtimes.sim.pool import TrainingPool, WorkerFailed, WorkerLost
from testbed.runtimes.sim.pool_records import ORDER_BYTES, Order, Outcome, OutcomeReader, Work, pack_outcome
from testbed.runtimes.sim.pool_worker import Arena, Inbox

SHAPE = (1, 8, 8)
ROWS = 6
PARTS = [np.arange(row * 30, row * 30 + 30) for row in range(ROWS)]
TESTS = [np.arange(100)] * ROWS


def images() -> DataSet:
    draw = np.random.default_rng(5)
    samples = Samples(draw.integers(0, 256, (200, *SHAPE), dtype=np.uint8), draw.integers(0, 10, 200))
    return DataSet("noise", Kind.CLASSES, 10, SHAPE, 0, 0, samples, samples, (0.5,), (0.25,), 1 / 255)


def trainer_of(model: str = "logistic", momentum: float = 0.0) -> Trainer:
    return Trainer(model, {}, images(), Settings(0.05, 8, momentum=momentum), seed=2)


def pool_of(trainer: Trainer, arena: Arena, workers: int) -> TrainingPool:
    return TrainingPool(trainer, arena, PARTS, TESTS, samples=40, seed=1, workers=workers)


def start(trainer: Trainer, arena: Arena) -> None:
    noise = np.random.default_rng(7).normal(size=(ROWS, trainer.parameters)).astype(np.float32)
    arena.model[:] = trainer.initial() + noise * np.float32(0.01)


def everything(model: str, workers: int, order: list[int]) -> dict[str, object]:
    """Two rounds, gradients and scores of all rows, handed in and taken in some order: all bytes that come out."""
    trainer = trainer_of(model, momentum=0.9)
    arena = Arena(ROWS, trainer.parameters, velocity=True, evaluations=3)
    assert arena.velocity is not None
    start(trainer, arena)
    found: dict[str, object] = {}
    with pool_of(trainer, arena, workers) as pool:
        assert len(pool.workers) == workers
        for number in range(2):
            jobs = {row: pool.train(row, row, 3 * number, 3) for row in order}
            for row in reversed(order):
                found[f"loss {number} {row}"] = jobs[row].result()
            arena.model[:] = arena.trained
            scores = {row: pool.evaluate(arena.model[row], row if row else -1) for row in order}
            for row in order:
                found[f"score {number} {row}"] = scores[row].result()
        found["model"] = arena.model.tobytes()
        found["velocity"] = arena.velocity.tobytes()
        gradients = {row: pool.gradient(row, row, 11) for row in order}
        for row in order:
            found[f"gradient loss {row}"] = gradients[row].result()
        found["gradients"] = arena.trained.tobytes()
    assert len(set(map(str, found.values()))) == len(found)  # nothing is there twice
    return dict(sorted(found.items()))


@pytest.mark.parametrize("model", ["gn-lenet", "mlp"])
@pytest.mark.slow
def test_results_are_the_same_for_any_number_of_workers_and_any_order(model: str) -> None:
    ranks = list(range(ROWS))
    expected = everything(model, 0, ranks)
    for workers, seed in ((0, 1), (1, 2), (2, 3)):
        order = Random(seed).sample(ranks, ROWS)  # noqa: S311
        assert order != ranks
        assert everything(model, workers, order) == expected


@pytest.fixture(params=[0, 2], ids=["here", "workers"])
def pool(request: pytest.FixtureRequest) -> Iterator[tuple[TrainingPool, Arena]]:
    trainer = trainer_of()
    arena = Arena(ROWS, trainer.parameters, evaluations=3)
    start(trainer, arena)
    with pool_of(trainer, arena, request.param) as made:
        yield made, arena


def test_a_vector_may_change_once_its_evaluation_is_handed_in(pool: tuple[TrainingPool, Arena]) -> None:
    made, arena = pool
    vectors = arena.model.copy()
    jobs = []
    for _ in range(4):  # many more than there are places for copies
        for vector in vectors:
            changing = vector.copy()
            jobs.append(made.evaluate(changing, 0))
            changing[:] = 0
    scores = [job.result() for job in jobs]
    assert scores == [made.evaluate(vector, 0).result() for vector in vectors] * 4
    assert len(set(scores)) == ROWS
    assert {score.samples for score in scores} == {40}


def test_what_fails_is_told_and_the_rest_goes_on(pool: tuple[TrainingPool, Arena]) -> None:
    made, arena = pool
    arena.model[1, 5] = np.nan
    arena.trained[1] = 7
    jobs = [made.train(row, row, 20, 2) for row in range(ROWS)]
    bad = made.evaluate(arena.model[1], 0)
    for _ in range(2):  # a result can be asked for again
        with pytest.raises(TrainingFailed, match=r"nan at local step 20;"):
            jobs[1].result()
    assert (arena.trained[1] == 7).all()
    with pytest.raises(TrainingFailed, match="evaluation"):
        bad.result()
    for row in (0, 2, 3, 4, 5):
        assert 0 < jobs[row].result() < 10
    assert made.evaluate(arena.model[0], 0).result().samples == 40


def test_more_orders_than_a_pipe_holds(pool: tuple[TrainingPool, Arena]) -> None:
    made, _ = pool
    count = 3 * 65536 // ORDER_BYTES
    jobs = [made.train(number % ROWS, 0, 0, 0) for number in range(count)]
    assert [job.result() for job in jobs] == [0.0] * count


BROKEN = """\
from torch import nn


class Broken(nn.Module):
    calls = 0

    def __init__(self, data):
        super().__init__()
        self.linear = nn.Linear(64, 10)

    def forward(self, inputs):
        print("a word from the model")
        self.calls += 1
        if self.calls > 2:
            raise ValueError("µ" * 9000)
        return self.linear(inputs.flatten(1))
"""


@pytest.mark.parametrize("workers", [0, 1])
def test_own_code_that_fails_later_is_told_with_its_place(
    tmp_path: Path, workers: int, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.py").write_text(BROKEN)
    trainer = trainer_of(f"{tmp_path}/own.py:Broken")
    arena = Arena(ROWS, trainer.parameters)
    start(trainer, arena)
    with pool_of(trainer, arena, workers) as made:
        capfd.readouterr()
        job = made.train(0, 0, 7, 1)
        with pytest.raises(CodeProblem, match="µµµµ") as caught:
            job.result()
        assert (caught.value.file, caught.value.line) == ("own.py", 15)
    if workers:
        assert capfd.readouterr().out == ""  # a worker's words are no data


def test_a_bug_in_a_worker_is_told(pool: tuple[TrainingPool, Arena]) -> None:
    made, _ = pool
    with pytest.raises((WorkerFailed, IndexError), match="index"):
        made.train(0, ROWS + 1, 0, 1).result()


# -- ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["idle", "busy"])
def test_a_killed_worker_is_noticed(when: str) -> None:
    trainer = trainer_of("mlp")
    arena = Arena(ROWS, trainer.parameters)
    start(trainer, arena)
    with pool_of(trainer, arena, 2) as made:
        first, second = made.workers
        done = made.train(0, 0, 0, 1)
        assert done.result() > 0
        jobs = [made.train(row, row, 0, 10**9) for row in (1, 2)] if when == "busy" else []
        os.kill(second, signal.SIGKILL)
        jobs += [made.train(3, 3, 0, 10**9)]
        for job in jobs:
            with pytest.raises(WorkerLost, match=f"process {second} was killed by signal 9") as caught:
                job.result()
            assert (caught.value.pid, caught.value.status) == (second, -9)
        assert done.result() > 0
        assert made.workers == [first]
    for pid in (first, second):
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def test_all_workers_may_be_dead() -> None:
    trainer = trainer_of()
    arena = Arena(ROWS, trainer.parameters)
    with pool_of(trainer, arena, 2) as made:
        for pid in made.workers:
            os.kill(pid, signal.SIGKILL)
        for _ in range(3 * 65536 // ORDER_BYTES):
            job = made.train(0, 0, 0, 0)
        with pytest.raises(WorkerLost):
            job.result()


def test_nothing_is_left_open_or_running() -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    trainer = trainer_of()
    arena = Arena(ROWS, trainer.parameters)
    before = descriptors()
    made = pool_of(trainer, arena, 2)
    pids = made.workers
    made.train(0, 0, 0, 10**9)
    made.close()
    made.close()
    assert descriptors() == before
    for pid in pids:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def test_workers_leave_ctrl_c_to_their_parent() -> None:
    trainer = trainer_of()
    arena = Arena(ROWS, trainer.parameters)
    start(trainer, arena)
    with pool_of(trainer, arena, 1) as made:
        job = made.train(0, 0, 0, 2000)
        for _ in range(20):
            os.kill(made.workers[0], signal.SIGINT)
        assert job.result() > 0
        assert made.train(1, 1, 0, 1).result() > 0


ORPHANS = """\
import os, signal, sys
from tests.runtimes.test_pool import *
trainer = trainer_of()
arena = Arena(ROWS, trainer.parameters)
start(trainer, arena)
pool = pool_of(trainer, arena, 2)
pool.train(0, 0, 0, 10**9)  # one is busy, one is not
print(*pool.workers, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.processes
def test_workers_end_with_their_parent() -> None:
    parent = subprocess.run([sys.executable, "-c", ORPHANS], stdout=subprocess.PIPE, check=False, timeout=60)
    assert parent.returncode == -signal.SIGKILL
    pids = parent.stdout.split()
    assert len(pids) == 2
    deadline = time.monotonic() + 20
    while any(is_running(int(pid)) for pid in pids):
        assert time.monotonic() < deadline, "a worker outlives its parent"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"  # the process that inherited it may reap it later


# -- records and their order -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "outcome",
    [
        0.1,
        Score(0.25, 1.5, 40),
        Score(None, 1.5, 40),
        Score(0.0, 0.0, 0),
        TrainingFailed("a word"),
        CodeProblem("a word", "own.py", 12),
        CodeProblem("a word"),
        TrainingFailed("\x01" * 5000),
        CodeProblem("\x01" * 5000, "f" * 3000, 3),
        ZeroDivisionError("oh"),
    ],
    ids=str,
)
def test_outcomes_survive_the_pipe(outcome: Outcome) -> None:
    record = pack_outcome(12, outcome)
    assert len(record) <= PIPE_BUF
    reader = OutcomeReader()
    found = [each for byte in record + record for each in reader.feed(bytes([byte]))]
    assert [number for number, _ in found] == [12, 12]
    for _, same in found:
        if isinstance(outcome, float | Score):
            assert same == outcome
        else:
            assert str(same)[:3] in str(outcome) or "oh" in str(same)
            assert isinstance(same, type(outcome) if not isinstance(outcome, ZeroDivisionError) else WorkerFailed)
        if isinstance(outcome, CodeProblem) and isinstance(same, CodeProblem):
            assert same.line == outcome.line


def test_orders_survive_the_pipe() -> None:
    order = Order(2**40, Work.TRAIN, 1023, 2**33, 2**34, -1)
    assert len(order.pack()) == ORDER_BYTES
    assert Order.unpack(order.pack()) == order


def test_training_goes_first_and_evaluation_does_not_starve() -> None:
    trainings, evaluations = os.pipe(), os.pipe()
    for number in range(10):
        os.write(trainings[1], Order(number, Work.TRAIN, 0).pack())
    for number in range(100, 105):
        os.write(evaluations[1], Order(number, Work.EVALUATE, 0).pack())
    for read_end, _ in (trainings, evaluations):
        os.set_blocking(read_end, False)
    inbox = Inbox(trainings[0], evaluations[0])
    taken = [next(inbox).number for _ in range(15)]
    assert taken == [0, 1, 2, 3, 100, 4, 5, 6, 7, 101, 8, 9, 102, 103, 104]
    for _, write_end in (trainings, evaluations):
        os.close(write_end)
    assert list(inbox) == []
    for read_end, _ in (trainings, evaluations):
        os.close(read_end)


# -- memory ----------------------------------------------------------------------------------------------------------


def test_an_arena_costs_only_what_is_written() -> None:
    def shared_kib() -> int:
        rollup = Path("/proc/self/smaps_rollup").read_text()
        return next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss_Shmem"))

    before = shared_kib()
    arena = Arena(1024, 89_834)
    assert arena.model.shape == arena.trained.shape == (1024, 89_834)
    assert arena.velocity is None
    assert shared_kib() - before < 100
    arena.model[512] = 1
    assert 351 <= shared_kib() - before <= 451
    assert float(arena.model[511].sum() + arena.model[513].sum()) == 0.0


def test_rows_are_apart() -> None:
    arena = Arena(3, 7, velocity=True, evaluations=2)
    assert arena.velocity is not None
    for number, rows in enumerate((arena.model, arena.trained, arena.velocity, arena.evaluated)):
        assert rows.dtype == np.float32
        assert not rows.any()
        for row in range(len(rows)):
            rows[row] = 10 * number + row
    for number, rows in enumerate((arena.model, arena.trained, arena.velocity, arena.evaluated)):
        assert [set(row) for row in rows.tolist()] == [{10 * number + row} for row in range(len(rows))]
