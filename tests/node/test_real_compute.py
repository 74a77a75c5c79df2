"""Computing in real time: results, pace, and making way."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.node.compute_slots import ComputeSlots, holders
from testbed.node.data.dataset import Samples
from testbed.node.data.experiment_data import partition_data
from testbed.node.data.partition import test_parts as parts_to_test
from testbed.node.evaluation_samples import evaluation_parts
from testbed.node.pace import end_of_work
from testbed.node.real_clock import RealClock
from testbed.node.real_compute import Overruns, Own, RealCompute, is_dense
from testbed.node.real_thread import ComputeThread
from testbed.node.trainer_of import make_trainer
from testbed.plan.files import split
from testbed.plan.model import NodePlan, RunPlan
from tests.runtimes import sim_runs


def plan_of(**settings: object) -> RunPlan:
    return sim_runs.plan_of(sim_runs.star(3), compute={"ms_per_step": 30, **settings}, stop={"rounds": 2})


def own(plan: RunPlan, learner: int) -> Own:
    data = partition_data(plan.experiment, 3, plan.seed)
    tests = evaluation_parts(data.dataset, parts_to_test(data.dataset, data.parts), 100, plan.seed)
    trainer = make_trainer(plan.experiment, data.dataset, plan.seed)
    return Own(trainer, data.parts[learner], tests[learner], "test", rooted_loss=False, evaluation_s=0.05)


class Made:
    """One node's compute, made in a running loop."""

    def __init__(self, plan: RunPlan, learner: int = 1, time_scale: float = 1.0) -> None:
        self.own = own(plan, learner)
        self.plan: NodePlan = next(each for each in split(plan) if each.node.learner == learner)
        self.time_scale = time_scale

    def compute(self, slots: ComputeSlots | None = None) -> RealCompute:
        return RealCompute(self.own, self.plan, RealClock(time.monotonic(), self.time_scale), slots)


@pytest.fixture(scope="module")
def paced() -> Made:
    return Made(plan_of())


@pytest.fixture(scope="module")
def measured() -> Made:
    return Made(plan_of(mode="measured"))


def test_training_gives_what_the_trainer_gives_and_leaves_the_model_until_its_end(measured: Made) -> None:
    async def test() -> None:
        compute = measured.compute()
        model = compute.initial()
        before = model.copy()
        training = asyncio.ensure_future(compute.train(model, 4, 3))
        await asyncio.sleep(0)
        assert np.array_equal(model, before)
        trained = await training
        expected = np.empty_like(model)
        trainer = measured.own.trainer
        expected_loss = trainer.train(
            before, learner=1, indices=measured.own.samples, first_step=4, steps=3, velocity=None, out=expected
        )
        assert trained.loss == expected_loss
        assert np.array_equal(model, expected)
        assert np.array_equal(trained.before, before)
        assert np.array_equal(trained.after, expected)
        assert not np.array_equal(model, before)
        gradient_loss, gradient = await compute.gradient(before, 2)
        out = np.empty_like(model)
        assert gradient_loss == trainer.gradient(before, learner=1, indices=measured.own.samples, step=2, out=out)
        assert np.array_equal(gradient, out)
        compute.close()

    asyncio.run(test())


def test_from_128_nodes_a_slot_on_a_run_is_dense() -> None:
    assert [is_dense(nodes, 2) for nodes in (255, 256)] == [False, True]


@pytest.mark.parametrize(("least", "returned"), [(1, 2), (4, 0)])
def test_the_memory_of_a_step_is_returned_in_dense_runs_alone(
    least: int, returned: int, measured: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three nodes and one slot; after warming up, and after a round's steps."""
    monkeypatch.setattr("testbed.node.real_compute._DENSE", least)
    calls: list[None] = []
    monkeypatch.setattr("testbed.node.real_compute.return_freed_memory", lambda: calls.append(None))

    async def test() -> None:
        compute = measured.compute(ComputeSlots(tmp_path, 1, 0))
        await compute.warm()
        await compute.train(compute.initial(), 0, 3)
        compute.close()

    asyncio.run(test())
    assert len(calls) == returned


def test_what_was_mixed_in_meanwhile_stays(paced: Made) -> None:
    async def test() -> None:
        compute = paced.compute()
        plain = compute.initial()
        alone = (await compute.train(plain, 0, 1)).after.copy()
        model = compute.initial()
        training = asyncio.ensure_future(compute.train(model, 0, 1))
        await asyncio.sleep(0)
        model += np.float32(1.0)
        trained = await training
        assert np.allclose(model, plain + 1.0, atol=1e-5)
        assert np.array_equal(trained.before, compute.initial()), "what training has changed is not what was mixed in"
        assert np.array_equal(trained.after, alone)
        compute.close()

    asyncio.run(test())


def test_paced_work_ends_at_its_time_and_never_before(paced: Made) -> None:
    async def test() -> None:
        compute = paced.compute()
        model = compute.initial()
        begun = time.monotonic()
        await compute.train(model, 0, 4)
        assert time.monotonic() - begun >= 4 * 0.030
        assert compute.overruns.works == 1  # on a busy machine it may have been late
        compute.close()

    asyncio.run(test())


def test_time_is_stretched_by_the_time_scale() -> None:
    made = Made(plan_of(), time_scale=3.0)

    async def test() -> None:
        compute = made.compute()
        begun = time.monotonic()
        await compute.train(compute.initial(), 0, 1)
        assert time.monotonic() - begun >= 3 * 0.030
        compute.close()

    asyncio.run(test())


def test_work_that_comes_late_is_counted_with_its_lateness() -> None:
    made = Made(plan_of(ms_per_step=0.001))

    async def test() -> None:
        compute = made.compute()
        for step in (0, 20):
            await compute.train(compute.initial(), step, 20)
        overruns = compute.overruns
        assert (overruns.works, overruns.late) == (2, 2)
        assert overruns.worst_s > 0
        assert overruns.worst_s < overruns.added_s <= 2 * overruns.worst_s
        assert compute.behind_s() == 0.0
        compute.close()

    asyncio.run(test())


def test_work_that_the_end_of_the_run_cuts_off_is_as_late_as_it_was_by_then() -> None:
    made = Made(plan_of(ms_per_step=0.001))

    async def test() -> None:
        compute = made.compute()
        training = asyncio.ensure_future(compute.train(compute.initial(), 0, 2000))
        await asyncio.sleep(0.05)
        before_s = compute.behind_s()
        training.cancel()
        await asyncio.wait([training])
        compute.close()  # its thread would outlive a failure
        assert 0.04 < before_s <= compute.overruns.added_s
        assert compute.overruns.works == 0

    asyncio.run(test())


def test_works_that_an_algorithm_does_at_once_are_late_each_by_itself() -> None:
    made = Made(plan_of(ms_per_step=0.001))

    async def test() -> None:
        compute = made.compute()
        model = compute.initial()
        await asyncio.gather(compute.train(model, 0, 20), compute.gradient(model, 20))
        overruns = compute.overruns
        assert (overruns.works, compute.behind_s()) == (2, 0.0)
        assert overruns.worst_s < overruns.added_s
        compute.close()

    asyncio.run(test())


STILL_S = 0.3
"""Far longer than the work takes that waits meanwhile for its time."""


@pytest.mark.alone
@pytest.mark.parametrize("time_scale", [1.0, 4.0])
@pytest.mark.parametrize("on_purpose", [False, True])
def test_whoever_stands_still_until_after_its_time_is_late_unless_it_was_stopped_on_purpose(
    time_scale: float, *, on_purpose: bool
) -> None:
    """The work itself was done in time."""
    made = Made(plan_of(), time_scale=time_scale)

    async def test() -> None:
        compute = made.compute()
        await compute.train(compute.initial(), 0, 1)  # all is warm
        compute.overruns = Overruns()
        told: list[tuple[float, float]] = []

        def stand_still() -> None:
            begun = time.monotonic()
            time.sleep(STILL_S)
            told.append((begun, time.monotonic()))
            # As from a socket that is looked at only after the alarm has gone off.
            loop = asyncio.get_running_loop()
            if on_purpose:
                loop.call_soon(lambda: loop.call_soon(lambda: loop.call_soon(lambda: compute.stood(*told[0]))))

        asyncio.get_running_loop().call_later(0.02 * time_scale, stand_still)
        await compute.train(compute.initial(), 1, 1)
        overruns = compute.overruns
        assert overruns.works == 1
        if on_purpose:
            assert overruns.worst_s < STILL_S / 2 / time_scale  # on a busy machine it may have been late
        else:
            assert overruns.late == 1
            assert STILL_S / 2 / time_scale < overruns.worst_s
        compute.close()

    asyncio.run(test())


def test_evaluations_in_pieces_score_like_whole_ones_and_make_way(measured: Made) -> None:
    async def test() -> None:
        compute = measured.compute()
        model = compute.initial()
        works = [compute.evaluate(model) for _ in range(20)]
        model += 1.0  # what is evaluated is a copy
        await compute.train(compute.initial(), 0, 1)
        assert not works[-1].is_done, "training did not go first"
        expected = measured.own.trainer.evaluate(compute.initial(), measured.own.tests, on=_test_samples(measured))
        for work in works:
            score = await asyncio.to_thread(work.result)
            assert (score.accuracy, score.samples) == (expected.accuracy, 100)
            assert score.loss == pytest.approx(expected.loss, rel=1e-12)
        inline = await compute.evaluate_inline(compute.initial())
        assert inline.loss == pytest.approx(expected.loss, rel=1e-12)
        unfinished = [compute.evaluate(model) for _ in range(200)]
        compute.close()
        with pytest.raises(RuntimeError, match="ended"):
            unfinished[-1].result()

    asyncio.run(test())


def _test_samples(made: Made) -> Samples:
    return made.own.trainer.dataset.test


def test_an_evaluation_waits_for_a_slot_that_nobody_who_trains_wants(measured: Made, tmp_path: Path) -> None:
    async def go() -> None:
        others = ComputeSlots(tmp_path, 1, 0)
        compute = measured.compute(ComputeSlots(tmp_path, 1, 0))
        model = compute.initial()
        with others.one():
            under_way = compute.evaluate(model)
            await asyncio.sleep(0.1)
            assert not under_way.is_done
        # It holds no slot between its pieces, and gives way to training while it waits.
        await compute.train(model, 0, 1)
        assert (await asyncio.to_thread(under_way.result)).samples > 0
        with others.one():
            pass
        with others.one_if_free() as is_free:
            assert is_free
        compute.close()
        others.close()

    asyncio.run(go())


def test_the_end_of_an_evaluation_wakes_what_waits_for_it_and_nothing_looks_meanwhile(
    measured: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand nodes that look again and again would leave no time to evaluate."""

    async def go() -> None:
        others = ComputeSlots(tmp_path, 1, 0)
        compute = measured.compute(ComputeSlots(tmp_path, 1, 0))
        turns = 0
        selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
        select = selector.select

        def counted(timeout: float | None) -> object:
            nonlocal turns
            turns += 1
            return select(timeout)

        monkeypatch.setattr(selector, "select", counted)
        with others.one():
            work = compute.evaluate(compute.initial())
            waiting = asyncio.ensure_future(work.ended())
            await asyncio.sleep(0.3)
            assert not waiting.done()
            assert turns < 5
        async with asyncio.timeout(60):
            await waiting
            assert work.is_done
            await work.ended()  # it is over already
            given_up = compute.evaluate(compute.initial())
            waiting = asyncio.ensure_future(given_up.ended())
            await asyncio.sleep(0)
            compute.close()
            await waiting
        others.close()

    asyncio.run(go())


def test_all_nodes_of_a_host_together_look_for_an_idle_slot_as_often_as_one_alone(
    measured: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else hundreds of them keep the cores from those that have a slot."""
    looks: list[float] = []
    look = ComputeSlots.one_if_free

    def seen(slots: ComputeSlots) -> AbstractContextManager[bool]:
        looks.append(time.monotonic())
        return look(slots)

    monkeypatch.setattr(ComputeSlots, "one_if_free", seen)

    async def looked(nodes: int, most_s: float, enough: int) -> int:
        """How often, until that is enough: the computing thread has the lowest priority."""
        looks.clear()
        compute = RealCompute(
            measured.own,
            measured.plan.model_copy(update={"ranks": ("a",) * nodes}),
            RealClock(time.monotonic(), 1.0),
            ComputeSlots(tmp_path, 2, 0),
        )
        work = compute.evaluate(compute.initial())
        until_s = time.monotonic() + most_s
        while time.monotonic() < until_s and len(looks) < enough:
            await asyncio.sleep(0.1)
        assert not work.is_done
        found = len(looks)
        compute.close()
        return found

    async def go() -> None:
        one, other = ComputeSlots(tmp_path, 2, 0), ComputeSlots(tmp_path, 2, 1)
        with one.one(), other.one():
            assert 1 <= await looked(400, 0.5, 99) <= 2  # at once, and every second
            assert await looked(2, 30.0, 11) > 10
        one.close()
        other.close()

    asyncio.run(go())


def test_the_thread_has_the_lowest_priority_and_passes_on_what_is_raised() -> None:
    def fail() -> None:
        raise KeyError("x")

    async def test() -> None:
        thread = ComputeThread()
        policy = await thread.do(lambda: os.sched_getscheduler(0))
        assert policy == os.SCHED_IDLE or thread.note
        with pytest.raises(KeyError):
            await thread.do(fail)
        waiting = asyncio.ensure_future(thread.do(lambda: time.sleep(0.05)))
        await asyncio.sleep(0.01)
        waiting.cancel()
        assert await thread.do(lambda: 5) == 5
        thread.close()

    asyncio.run(test())
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_the_clock_is_the_hosts_from_a_moment_on_and_slower_by_the_scale() -> None:
    async def test() -> None:
        clock = RealClock(time.monotonic() + 0.05, 2.0)
        assert -0.025 <= clock.now() < 0
        rung: list[float] = []
        clock.call_at(0.02, lambda: rung.append(clock.now()))
        clock.call_at(0.01, lambda: rung.append(-1)).cancel()
        clock.call_at(-5.0, lambda: rung.append(clock.now()))
        await asyncio.sleep(0.2)
        first, second = rung
        assert first < 0.02 <= second

    asyncio.run(test())
    with pytest.raises(ValueError, match="above 0"):
        RealClock(0.0, 0.0)


# -- slots ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def children() -> Iterator[list[int]]:
    pids: list[int] = []
    yield pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def holder(folder: Path, count: int, favourite: int, children: list[int]) -> None:
    """A process that has a slot, for ever."""
    ready, tell = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            with ComputeSlots(folder, count, favourite).one():
                os.write(tell, b"r")
                signal.pause()
        finally:
            os._exit(1)
    children.append(pid)
    os.read(ready, 1)
    os.close(ready)
    os.close(tell)


def taken(folder: Path, count: int) -> int:
    """The number of slots that are held."""
    number = 0
    for place in range(count):
        with (folder / f"slot-{place}").open("r+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                number += 1
    return number


@pytest.mark.parametrize("freed", [0, 1])
def test_slots_are_taken_wherever_they_are_free_first_and_lost_by_nobodys_death(
    freed: int, tmp_path: Path, children: list[int]
) -> None:
    holder(tmp_path, 2, 0, children)
    assert taken(tmp_path, 2) == 1
    holder(tmp_path, 2, 0, children)
    assert taken(tmp_path, 2) == 2
    slots, behind = ComputeSlots(tmp_path, 2, 1), ComputeSlots(tmp_path, 2, 1)
    got: list[float] = []

    async def test() -> None:
        thread = ComputeThread()

        def wait() -> None:
            with slots.one():
                got.append(time.monotonic())

        waiting = asyncio.ensure_future(thread.do(wait))
        await asyncio.sleep(0.1)
        assert not got
        assert holders(tmp_path) == {*children, os.getpid()}, "the first of a queue keeps those behind it"
        with behind.one_if_free() as is_free:
            assert not is_free
        victim = children.pop(freed)
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
        async with asyncio.timeout(5):
            await waiting
        thread.close()

    asyncio.run(test())
    assert got
    assert taken(tmp_path, 2) == 1
    assert holders(tmp_path) == set(children)
    slots.close()
    behind.close()


def test_who_only_asks_for_one_of_the_slots_takes_nobodys_turn(tmp_path: Path) -> None:
    """Even in the moment before the waiting process sees that one has become free."""
    slots = ComputeSlots(tmp_path, 2, 0)
    with (tmp_path / "queue-1").open("r+") as queue:
        fcntl.flock(queue, fcntl.LOCK_EX)
        with slots.one_if_free() as is_free:
            assert not is_free
        fcntl.flock(queue, fcntl.LOCK_UN)
        with slots.one_if_free() as is_free:
            assert is_free
    slots.close()


def test_those_who_wait_for_slots_get_them_one_after_the_other(tmp_path: Path) -> None:
    first, second = ComputeSlots(tmp_path, 1, 0), ComputeSlots(tmp_path, 1, 0)
    got: list[str] = []

    def wait(slots: ComputeSlots, name: str) -> None:
        with slots.one():
            got.append(name)

    with ComputeSlots(tmp_path, 1, 0).one():
        threads = [
            threading.Thread(target=wait, args=each, daemon=True) for each in ((first, "first"), (second, "second"))
        ]
        for thread in threads:
            thread.start()
            time.sleep(0.1)
        assert waiting_in_a_queue(tmp_path) == 1
        first.step_aside()
        time.sleep(0.1)
        assert waiting_in_a_queue(tmp_path) == 1
    for thread in threads:
        thread.join(5)
    assert got == ["second", "first"], "who steps aside begins anew"
    first.close()
    second.close()


def test_a_holder_rings_when_another_process_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.node.compute_slots._LOOK_MS", 60_000)
    holder, other = ComputeSlots(tmp_path, 1, 0), ComputeSlots(tmp_path, 1, 0)
    got = threading.Event()

    def wait() -> None:
        with other.one():
            got.set()

    with holder.one():
        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        time.sleep(0.1)
        assert not got.is_set()
    assert got.wait(5)
    waiting.join(5)
    holder.close()
    other.close()


def waiting_in_a_queue(folder: Path) -> int:
    """How many the kernel keeps waiting for a queue's file."""
    number = str((folder / "queue-0").stat().st_ino)
    lines = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    return sum(1 for words in lines if "->" in words and any(word.endswith(f":{number}") for word in words))


def test_holders_of_slots_are_found_where_a_volume_has_parts(
    tmp_path: Path, children: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with btrfs: what `stat` says of the device is not what the kernel's list of locks does."""
    holder(tmp_path, 1, 0, children)
    original = os.stat

    def as_of_a_part(*args: Any, **options: Any) -> os.stat_result:
        told = original(*args, **options)
        return os.stat_result((*told[:2], told.st_dev + 1, *told[3:]))

    monkeypatch.setattr(os, "stat", as_of_a_part)
    assert holders(tmp_path) == set(children)


def test_a_slot_is_given_back_whatever_happens(tmp_path: Path) -> None:
    slots = ComputeSlots(tmp_path, 1, 7)
    with contextlib.suppress(KeyError), slots.one():
        assert taken(tmp_path, 1) == 1
        raise KeyError("x")
    assert taken(tmp_path, 1) == 0
    slots.close()
    with pytest.raises(ValueError, match="slot"):
        ComputeSlots(tmp_path, 0, 0)


def test_work_across_a_change_of_speed() -> None:
    pace = ((0.0, 1.0), (10.0, 3.0), (20.0, 0.5))
    assert end_of_work(0.0, 5.0, pace) == 5.0
    assert end_of_work(8.0, 3.0, pace) == pytest.approx(13.0)
    assert end_of_work(19.0, 1.0, pace) == pytest.approx(20.0 + (1 - 1 / 3) * 0.5)
