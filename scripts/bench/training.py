#!/usr/bin/env python3
"""What training costs: plain torch, our step, bare loops on all cores, and the pool of a simulation.

GN-LeNet on images of 28×28, batch 8, five local steps a round. Random images: the arithmetic is the same. The ratio of
pool to bare loops is what shared memory, pipes and scheduling leave of the machine. Memory is the proportional share
(PSS) of the process that simulates and of its workers, with as many parts as the last table says.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from testbed.node.data.dataset import DataSet, Kind, Samples
from testbed.node.models.build import build_model
from testbed.node.training import Settings, Trainer
from testbed.node.training_batch import Indices
from testbed.node.training_speed import bare_loops
from testbed.runtimes.sim.pool import TrainingPool
from testbed.runtimes.sim.pool_worker import Arena

STEPS = 5
SETTINGS = Settings(lr=0.05, batch=8, steps=STEPS)
CORES = os.cpu_count() or 1


def images(folder: Path, count: int = 60_000) -> DataSet:
    """Random images, mapped from a file as real ones are."""
    draw = np.random.default_rng(1)
    file = folder / "images.npy"
    np.save(file, draw.integers(0, 256, (count, 1, 28, 28), dtype=np.uint8))
    train = Samples(np.load(file, mmap_mode="r"), draw.integers(0, 10, count))
    test = Samples(train.inputs[:10_000], train.targets[:10_000])
    return DataSet("random", Kind.CLASSES, 10, (1, 28, 28), 0, 0, train, test, (0.5,), (0.5,), 1 / 255)


def parts_of(dataset: DataSet, learners: int) -> list[Indices]:
    return list(np.random.default_rng(2).permutation(len(dataset.train)).reshape(learners, -1))


def plain_torch(dataset: DataSet, *, channels_last: bool) -> Callable[[], None]:
    """The usual training loop, on a prepared batch."""
    layout = torch.channels_last if channels_last else torch.contiguous_format
    model = build_model("gn-lenet", {}, dataset, 1)
    for weights in model.parameters():
        if weights.dim() == 4:
            weights.data = weights.data.contiguous(memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=SETTINGS.lr)
    chosen = np.arange(SETTINGS.batch)
    inputs = torch.from_numpy(dataset.batch(dataset.train, chosen)).contiguous(memory_format=layout)
    targets = torch.from_numpy(dataset.train.targets[chosen])

    def steps() -> None:
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(inputs), targets)
            torch.autograd.backward(loss)
            optimizer.step()
            loss.item()

    return steps


def ours(trainer: Trainer, part: Indices) -> Callable[[], None]:
    vector = trainer.initial()

    def steps() -> None:
        trainer.train(vector, learner=0, indices=part, first_step=0, steps=STEPS, velocity=None, out=vector)

    return steps


def interleaved(loops: dict[str, Callable[[], None]], turns: int) -> dict[str, NDArray[np.float64]]:
    """Milliseconds per step; in turns, so that other load on the machine affects all loops alike."""
    times: dict[str, list[float]] = {name: [] for name in loops}
    for turn in range(turns + 2):
        for name, loop in loops.items():
            begun = time.perf_counter()
            loop()
            if turn >= 2:
                times[name].append((time.perf_counter() - begun) / STEPS * 1000)
    return {name: np.array(each) for name, each in times.items()}


def pool_steps_per_s(pool: TrainingPool, arena: Arena, trainer: Trainer, rounds: int) -> float:
    """All rows train, round after round: a row goes on when its round is done, as in a simulation."""
    arena.model[:] = trainer.initial()
    jobs = {row: pool.train(row, row, 0, STEPS) for row in range(arena.rows)}
    for job in jobs.values():
        job.result()
    begun = time.perf_counter()
    for number in range(1, rounds + 1):
        for row in range(arena.rows):
            jobs[row].result()
            arena.model[row] = arena.trained[row]
            jobs[row] = pool.train(row, row, number * STEPS, STEPS)
    for job in jobs.values():
        job.result()
    return rounds * arena.rows * STEPS / (time.perf_counter() - begun)


def memory_mib(pid: int) -> dict[str, float]:
    """Memory of a process by the kernel's categories."""
    found: dict[str, float] = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, kib, _ = line.split()
        found[name.rstrip(":")] = int(kib) / 1024
    return found


def measure_pool(dataset: DataSet, learners: int, rounds: int) -> tuple[float, float]:
    """Steps per second of the bare loops and of the pool."""
    trainer = Trainer("gn-lenet", {}, dataset, SETTINGS, seed=1)
    parts = parts_of(dataset, learners)
    bare = bare_loops(trainer, parts, processes=CORES, rounds=rounds, steps=STEPS)
    arena = Arena(learners, trainer.parameters)
    with TrainingPool(trainer, arena, parts, [], samples=500, seed=1, workers=CORES) as pool:
        return bare.steps_per_s, pool_steps_per_s(pool, arena, trainer, rounds)


def measure_memory(dataset: DataSet, learners: int) -> None:
    trainer = Trainer("gn-lenet", {}, dataset, SETTINGS, seed=1)
    parts = [part[:58] for part in parts_of(dataset, 100)] * (learners // 100 + 1)
    arena = Arena(learners, trainer.parameters)
    with TrainingPool(trainer, arena, parts[:learners], [], samples=500, seed=1, workers=CORES) as pool:
        arena.model[:] = trainer.initial()
        jobs = [pool.train(row, row, 0, 1) for row in range(learners)]
        for job in jobs:
            job.result()
        pool.evaluate(arena.trained[0], -1).result()
        print(f"\n| {learners} learners | PSS MiB | rows | files | own |\n|---|---|---|---|---|")
        for who, pid in (("parent", os.getpid()), *((f"worker {pid}", pid) for pid in pool.workers)):
            found = memory_mib(pid)
            kinds = " | ".join(f"{found[kind]:.0f}" for kind in ("Pss", "Pss_Shmem", "Pss_File", "Pss_Anon"))
            print(f"| {who} | {kinds} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learners", type=int, default=60, help="of the throughput table; must divide 60 000")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--memory-learners", type=int, default=1024)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        dataset = images(Path(folder))
        trainer = Trainer("gn-lenet", {}, dataset, SETTINGS, seed=1)
        loops = {
            "torch.optim.SGD": plain_torch(dataset, channels_last=False),
            "torch.optim.SGD, channels last": plain_torch(dataset, channels_last=True),
            "Trainer.train": ours(trainer, np.arange(600)),
        }
        print("| one process | ms per step, median | best |\n|---|---|---|")
        for name, times in interleaved(loops, 30).items():
            print(f"| {name} | {np.median(times):.2f} | {times.min():.2f} |", flush=True)
        print("\n| all cores | steps/s | of the bare loops |\n|---|---|---|")
        bare, pool = measure_pool(dataset, arguments.learners, arguments.rounds)
        print(f"| bare loops | {bare:.0f} | 1 |\n| pool | {pool:.0f} | {pool / bare:.2f} |", flush=True)
        measure_memory(dataset, arguments.memory_learners)


if __name__ == "__main__":
    main()
