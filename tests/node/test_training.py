"""Training: the same as torch's own optimizer, the same wherever and in whatever order it is done."""

from __future__ import annotations

import math
import os
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from testbed.code import CodeProblem
from testbed.node.data.dataset import DataSet, Kind, Samples
from testbed.node.evaluation import scale_step
from testbed.node.evaluation_samples import evaluation_parts
from testbed.node.minibatches import Minibatches
from testbed.node.models.build import build_model
from testbed.node.training import Settings, Trainer, TrainingFailed
from testbed.node.training_cost import count_operations, nominal_ms_per_step, pass_forward
from testbed.node.training_speed import bare_loops, sustained_ms_per_step

Vector = NDArray[np.float32]


def images(*shape: int, train: int = 200, test: int = 150) -> DataSet:
    draw = np.random.default_rng(5)

    def some(count: int) -> Samples:
        return Samples(draw.integers(0, 256, (count, *shape), dtype=np.uint8), draw.integers(0, 10, count))

    return DataSet("noise", Kind.CLASSES, 10, shape, 0, 0, some(train), some(test), (0.5,), (0.25,), 1 / 255)


def stars(scale: float = 1.0) -> DataSet:
    draw = np.random.default_rng(6)

    def some(count: int) -> Samples:
        pairs = np.stack([draw.integers(0, 20, count), draw.integers(0, 30, count)], axis=1).astype(np.int32)
        return Samples(pairs, (draw.integers(1, 6, count) * scale).astype(np.float32), pairs[:, 0])

    return DataSet("stars", Kind.RATINGS, 0, (2,), 20, 30, some(300), some(100))


PART = np.arange(10, 90)


def trained(trainer: Trainer, vector: Vector, first_step: int, steps: int, velocity: Vector | None = None) -> Vector:
    out = np.empty_like(vector)
    trainer.train(vector, learner=3, indices=PART, first_step=first_step, steps=steps, velocity=velocity, out=out)
    return out


# -- minibatches ---------------------------------------------------------------------------------------------------


def test_an_epoch_has_every_sample_at_most_once_and_only_full_batches() -> None:
    batches = Minibatches(1, 8)
    assert batches.per_epoch(50) == 6
    for epoch in range(3):
        seen = [batches.positions(0, 50, epoch * 6 + number) for number in range(6)]
        assert {len(each) for each in seen} == {8}
        assert max(Counter(np.concatenate(seen).tolist()).values()) == 1
    over_many = np.concatenate([batches.positions(0, 50, step) for step in range(60)])
    assert set(over_many.tolist()) == set(range(50))


def test_few_samples_are_all_in_every_batch() -> None:
    batches = Minibatches(1, 8)
    assert batches.per_epoch(3) == 1
    assert [sorted(batches.positions(0, 3, step).tolist()) for step in range(3)] == [[0, 1, 2]] * 3
    assert sorted(batches.positions(0, 8, 5).tolist()) == list(range(8))


def test_batches_differ_by_learner_epoch_and_seed_and_by_nothing_else() -> None:
    def whole(seed: int, learner: int, epoch: int) -> list[int]:
        return list(map(int, Minibatches(seed, 40).positions(learner, 40, epoch)))

    orders = {tuple(whole(seed, learner, epoch)) for seed in (1, 2) for learner in (0, 1) for epoch in (0, 1)}
    assert len(orders) == 8
    warm = Minibatches(1, 40)
    for epoch in (4, 2, 7):
        warm.positions(0, 40, epoch)
    assert warm.positions(0, 40, 1).tolist() == whole(1, 0, 1)


def test_orders_are_those_of_every_machine() -> None:
    assert Minibatches(1, 10).positions(7, 10, 3).tolist() == GOLDEN_ORDER


GOLDEN_ORDER = [3, 6, 0, 2, 8, 1, 7, 4, 9, 5]


# -- the step --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("momentum", "weight_decay"), [(0.0, 0.0), (0.9, 0.0), (0.0, 0.1), (0.9, 0.1)])
@pytest.mark.parametrize("model", ["mlp", "gn-lenet"])
def test_a_step_is_that_of_torch(model: str, momentum: float, weight_decay: float) -> None:
    data = images(1, 8, 8)
    trainer = Trainer(model, {}, data, Settings(0.05, 8, momentum=momentum, weight_decay=weight_decay), seed=2)
    velocity = np.zeros(trainer.parameters, np.float32)
    out = np.empty(trainer.parameters, np.float32)
    loss = trainer.train(trainer.initial(), learner=3, indices=PART, first_step=4, steps=9, velocity=velocity, out=out)

    module = build_model(model, {}, data, 2)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=momentum, weight_decay=weight_decay)
    losses = []
    for step in range(4, 13):
        chosen = PART[Minibatches(2, 8).positions(3, len(PART), step)]
        optimizer.zero_grad()
        outputs = module(torch.from_numpy(data.batch(data.train, chosen)))
        value = functional.cross_entropy(outputs, torch.from_numpy(data.train.targets[chosen]))
        torch.autograd.backward(value)
        optimizer.step()
        losses.append(value.item())
    expected = torch.cat([each.detach().ravel() for each in module.parameters()]).numpy()
    moved = np.abs(expected - trainer.initial()).max()
    assert moved > 1e-3
    assert np.abs(out - expected).max() < 2e-4 * moved
    assert loss == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.parametrize("model", ["mlp", "gn-lenet"])
def test_steps_can_be_done_in_pieces_and_in_between_others(model: str) -> None:
    data = images(1, 8, 8)
    trainer = Trainer(model, {}, data, Settings(0.05, 8, momentum=0.9), seed=2)
    at_once, piecewise = np.zeros((2, trainer.parameters), np.float32)
    whole = trained(trainer, trainer.initial(), 0, 5, at_once)
    half = trained(trainer, trainer.initial(), 0, 2, piecewise)
    other = np.random.default_rng(1).normal(size=trainer.parameters).astype(np.float32)
    trained(trainer, other, 17, 3, np.ones_like(other))
    trainer.evaluate(other, np.arange(20), on=data.test)
    pieces = trained(trainer, half, 2, 3, piecewise)
    assert pieces.tobytes() == whole.tobytes()
    assert piecewise.tobytes() == at_once.tobytes()
    fresh = Trainer(model, {}, data, Settings(0.05, 8, momentum=0.9), seed=2)
    assert trained(fresh, fresh.initial(), 0, 5, np.zeros_like(other)).tobytes() == whole.tobytes()


def test_the_vector_is_only_read() -> None:
    trainer = Trainer("gn-lenet", {}, images(1, 8, 8), Settings(0.05, 8), seed=2)
    vector = trainer.initial()
    vector.flags.writeable = False
    out = trained(trainer, vector, 0, 1)
    assert vector.tobytes() == trainer.initial().tobytes() != out.tobytes()
    assert trained(trainer, vector, 0, 0).tobytes() == vector.tobytes()


def test_a_gradient_is_what_a_step_applies() -> None:
    trainer = Trainer("gn-lenet", {}, images(1, 8, 8), Settings(0.05, 8, weight_decay=0.1), seed=2)
    vector = trainer.initial()
    gradient = np.empty_like(vector)
    loss = trainer.gradient(vector, learner=3, indices=PART, step=6, out=gradient)
    out = np.empty_like(vector)
    again = trainer.train(vector, learner=3, indices=PART, first_step=6, steps=1, velocity=None, out=out)
    assert loss == again
    assert np.allclose(out, vector - np.float32(0.05) * gradient, rtol=0, atol=1e-7)
    assert np.abs(out - vector).max() > 1e-4


def test_momentum_needs_a_velocity() -> None:
    trainer = Trainer("mlp", {}, images(1, 8, 8), Settings(0.05, 8, momentum=0.9), seed=2)
    with pytest.raises(ValueError, match="velocity"):
        trained(trainer, trainer.initial(), 0, 1)


def test_steps_of_a_round() -> None:
    def steps(settings: Settings, samples: int) -> int:
        return Trainer("logistic", {}, images(1, 8, 8), settings, seed=2).steps_per_round(samples)

    assert steps(Settings(0.05, 8, steps=5), 1000) == 5
    assert steps(Settings(0.05, 8, steps=None, epochs=2), 50) == 12
    assert steps(Settings(0.05, 8, steps=None, epochs=1), 3) == 1


# -- failures --------------------------------------------------------------------------------------------------------


def test_leaving_the_numbers_names_the_step_and_writes_nothing() -> None:
    trainer = Trainer("mlp", {}, images(1, 8, 8), Settings(1e30, 8), seed=2)
    out = np.full(trainer.parameters, 7, np.float32)
    with pytest.raises(TrainingFailed, match=r"local step 4[12]; .*lower training\.lr$"):
        trainer.train(trainer.initial(), learner=0, indices=PART, first_step=41, steps=5, velocity=None, out=out)
    assert (out == 7).all()
    bad = trainer.initial()
    bad[3] = math.nan
    with pytest.raises(TrainingFailed, match=r"the loss is nan at local step 41; .*lower training\.lr$"):
        trainer.train(bad, learner=0, indices=PART, first_step=41, steps=5, velocity=None, out=out)
    with pytest.raises(TrainingFailed, match="evaluation is nan"):
        trainer.evaluate(bad, PART, on=trainer.dataset.test)
    with pytest.raises(TrainingFailed, match=r"nan at local step 3; .*lower training\.lr$"):
        trainer.gradient(bad, learner=0, indices=PART, step=3, out=out)


def test_weights_may_be_lost_while_the_loss_is_a_number() -> None:
    trainer = Trainer("logistic", {}, images(1, 8, 8), Settings(3e38, 8, weight_decay=1e3), seed=2)
    with pytest.raises(TrainingFailed, match=r"weights .* local step 9; .*lower training\.lr$"):
        trained(trainer, trainer.initial(), 9, 1)


def test_no_samples_are_told() -> None:
    trainer = Trainer("mlp", {}, images(1, 8, 8), Settings(0.1, 8), seed=2)
    nothing = np.arange(0)
    with pytest.raises(TrainingFailed, match="no samples to train"):
        trainer.train(
            trainer.initial(), learner=0, indices=nothing, first_step=0, steps=1, velocity=None, out=trainer.initial()
        )
    with pytest.raises(TrainingFailed, match="no samples to evaluate"):
        trainer.evaluate(trainer.initial(), nothing, on=trainer.dataset.test)


# -- models of one's own ---------------------------------------------------------------------------------------------

OWN = """\
import sys

import torch
from torch import nn
from torch.nn import functional


class Normalised(nn.Module):
    def __init__(self, data):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.Flatten(), nn.Linear(144, 10)
        )

    def forward(self, inputs):
        return self.layers(inputs)


class Tied(nn.Module):
    def __init__(self, data):
        super().__init__()
        self.code = nn.Linear(64, 64, bias=False)
        self.decode = nn.Linear(64, 64, bias=False)
        self.decode.weight = self.code.weight
        self.fixed = nn.Parameter(torch.full((3,), 2.0), requires_grad=False)

    def forward(self, inputs):
        return self.decode(torch.tanh(self.code(torch.flatten(inputs, 1))))[:, :10]


class Margin(nn.Module):
    def __init__(self, data):
        super().__init__()
        self.linear = nn.Linear(64, 10)

    def forward(self, inputs):
        return self.linear(torch.flatten(inputs, 1))

    def loss(self, outputs, targets):
        return functional.multi_margin_loss(outputs, targets)


class Broken(Margin):
    def __init__(self, data, how):
        super().__init__(data)
        self.how = how

    def forward(self, inputs):
        if self.how == "exits":
            sys.exit("enough")
        if self.how == "raises":
            raise ValueError("no such luck")
        return super().forward(inputs)[:, :1, None, None]
"""


def test_running_statistics_are_part_of_the_vector_and_counters_are_not(own: str) -> None:
    trainer = Trainer(f"{own}:Normalised", {}, images(1, 8, 8), Settings(0.1, 8, weight_decay=0.5), seed=2)
    assert trainer.parameters == 40 + 8 + 8 + 1450
    vector = trainer.initial()
    means, variances = slice(48, 52), slice(52, 56)
    assert vector[means].tolist() == [0.0] * 4
    assert vector[variances].tolist() == [1.0] * 4
    first = trained(trainer, vector, 0, 3)
    assert (first[means] != 0).all()
    assert trained(trainer, vector, 0, 3).tobytes() == first.tobytes()  # dropout included
    assert trained(trainer, trained(trainer, vector, 0, 1), 1, 2).tobytes() == first.tobytes()
    gradient = np.full_like(vector, 9)
    trainer.gradient(vector, learner=3, indices=PART, step=0, out=gradient)
    assert (gradient[48:56] == 0).all()
    assert (gradient[56:] != 0).any()


def test_shared_weights_count_once_and_fixed_ones_stay(own: str) -> None:
    trainer = Trainer(f"{own}:Tied", {}, images(1, 8, 8), Settings(0.1, 8, weight_decay=0.5), seed=2)
    assert trainer.parameters == 64 * 64 + 3
    vector = trainer.initial()
    out = trained(trainer, vector, 0, 2)
    fixed = np.flatnonzero(vector == 2.0)
    assert len(fixed) == 3
    assert (out[fixed] == 2.0).all()
    assert (np.delete(out, fixed) != np.delete(vector, fixed)).mean() > 0.9


def test_own_loss_is_used(own: str) -> None:
    data = images(1, 8, 8)
    trainer = Trainer(f"{own}:Margin", {}, data, Settings(0.1, 8), seed=2)
    score = trainer.evaluate(trainer.initial(), np.arange(150), on=data.test)
    module = build_model(f"{own}:Margin", {}, data, 2)
    outputs = module(torch.from_numpy(data.batch(data.test, np.arange(150))))
    targets = torch.from_numpy(data.test.targets)
    assert score.loss == pytest.approx(functional.multi_margin_loss(outputs, targets).item(), rel=1e-5)
    assert abs(score.loss - functional.cross_entropy(outputs, targets).item()) > 0.1


@pytest.mark.parametrize(
    ("how", "words", "line"),
    [("raises", "no such luck", 52), ("exits", "enough", 50), ("shapes", "non-empty vector", 40)],
)
def test_own_code_that_fails_is_told_with_its_place(own: str, how: str, words: str, line: int) -> None:
    trainer = Trainer(f"{own}:Broken", {"how": how}, images(1, 8, 8), Settings(0.1, 8), seed=2)
    with pytest.raises(CodeProblem, match=words) as caught:
        trained(trainer, trainer.initial(), 0, 1)
    assert (caught.value.file, caught.value.line) == ("own.py", line)


# -- evaluation ------------------------------------------------------------------------------------------------------


def test_classes_are_scored_over_all_samples_alike() -> None:
    data = images(1, 8, 8)  # 150 to test: one full batch and a smaller one
    trainer = Trainer("gn-lenet", {}, data, Settings(0.1, 8), seed=2)
    chosen = np.arange(149, -1, -1)
    score = trainer.evaluate(trainer.initial(), chosen, on=data.test)
    module = build_model("gn-lenet", {}, data, 2)
    outputs = module(torch.from_numpy(data.batch(data.test, np.arange(150)))).detach()
    targets = torch.from_numpy(data.test.targets)
    assert score.samples == 150
    assert score.accuracy == pytest.approx((outputs.argmax(1) == targets).double().mean().item(), abs=1e-9)
    assert score.loss == pytest.approx(functional.cross_entropy(outputs, targets).item(), rel=1e-5)
    assert trainer.evaluate(trainer.initial(), chosen[:3], on=data.test).samples == 3


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_ratings_are_scored_by_rmse_and_by_rounding_to_their_scale(scale: float) -> None:
    data = stars(scale)
    trainer = Trainer("mf", {"factors": 2}, data, Settings(0.1, 8), seed=2)
    vector = (np.random.default_rng(3).normal(size=trainer.parameters) * 1.4 + 0.5).astype(np.float32)
    score = trainer.evaluate(vector, np.arange(100), on=data.test)
    users, items = vector[:40].reshape(20, 2), vector[40:].reshape(30, 2)
    found = (users[data.test.inputs[:, 0]] * items[data.test.inputs[:, 1]]).sum(1).astype(np.float64)
    nearest = np.clip(np.rint(found / scale) * scale, scale, 5 * scale)
    assert (found > 5 * scale).any()  # clipping matters
    assert score.accuracy == pytest.approx((nearest == data.test.targets).mean())
    assert 0.05 < (score.accuracy or 0) < 0.95
    assert score.loss == pytest.approx(np.sqrt(((found - data.test.targets) ** 2).mean()), rel=1e-6)


def test_scales_of_ratings() -> None:
    assert scale_step(np.array([1, 2, 5], np.float32)) == 1.0
    assert scale_step(np.array([1, 2.5, 5], np.float32)) == 0.5
    assert scale_step(np.array([1, 2.3, 5], np.float32)) is None
    data = stars()
    odd = replace(data, train=replace(data.train, targets=data.train.targets * np.float32(0.3)))
    trainer = Trainer("mf", {}, odd, Settings(0.1, 8), seed=2)
    assert trainer.evaluate(trainer.initial(), np.arange(9), on=odd.test).accuracy is None


def test_only_rows_of_own_users_and_items_learn() -> None:
    data = stars()
    own = np.flatnonzero(data.train.inputs[:, 0] < 4)
    trainer = Trainer("mf", {}, data, Settings(0.05, 4), seed=2)
    out = np.empty_like(trainer.initial())
    trainer.train(trainer.initial(), learner=0, indices=own, first_step=0, steps=60, velocity=None, out=out)
    changed = (out != trainer.initial()).reshape(50, 20).any(1)
    items = set(data.train.inputs[own, 1].tolist())
    assert set(np.flatnonzero(changed).tolist()) == {0, 1, 2, 3} | {20 + item for item in items}
    assert len(items) < 30


def test_evaluations_use_a_fixed_choice_of_the_test_samples() -> None:
    data = images(1, 8, 8)
    everything = np.arange(150)
    parts = evaluation_parts(data, [everything, everything], 40, seed=1)
    assert [len(each) for each in parts] == [40, 40, 40]
    assert len(set(parts[0].tolist())) == 40
    assert parts[0].tolist() == parts[1].tolist() == parts[-1].tolist() != list(range(40))
    assert evaluation_parts(data, [everything], 40, seed=2)[0].tolist() != parts[0].tolist()
    few, none, overall = evaluation_parts(data, [np.array([3, 9]), np.arange(0)], 40, seed=1)
    assert (few.tolist(), none.tolist(), len(overall)) == ([3, 9], [], 40)


# -- cost ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "shape", "batch", "ms"),
    [("gn-lenet", (1, 28, 28), 8, 20.0), ("gn-lenet", (3, 32, 32), 8, 30.0), ("gn-lenet", (1, 28, 28), 1, 10.0)],
)
def test_a_nominal_step_is_what_its_arithmetic_takes(model: str, shape: tuple[int, ...], batch: int, ms: float) -> None:
    trainer = Trainer(model, {}, images(*shape, train=1, test=1), Settings(0.1, 8), seed=2)
    assert nominal_ms_per_step(trainer, batch) == ms


@pytest.mark.parametrize(("model", "shape"), [("gn-lenet", (3, 32, 32)), ("mlp", (1, 8, 8)), ("logistic", (1, 8, 8))])
def test_operations_are_counted_as_torchs_own_counter_does(model: str, shape: tuple[int, ...]) -> None:
    trainer = Trainer(model, {}, images(*shape, train=1, test=1), Settings(0.1, 8), seed=2)
    with FlopCounterMode(display=False) as counter:
        pass_forward(trainer, 8)
    assert count_operations(trainer, 8) == counter.get_total_flops() > 0


def test_no_step_is_free() -> None:
    assert nominal_ms_per_step(Trainer("mf", {}, stars(), Settings(0.1, 8), seed=2), 8) == 10.0


def test_bare_loops_do_all_the_steps_and_their_times_add_up() -> None:
    trainer = Trainer("mlp", {}, images(1, 8, 8), Settings(0.1, 8), seed=2)
    speed = bare_loops(trainer, [PART] * 3, processes=2, rounds=4, steps=5)
    assert len(speed.step_ms) == 12
    assert (speed.step_ms > 0).all()
    # Two processes cannot be faster than twice the mean step, nor three learners in a row slower than one by one.
    assert speed.steps_per_s <= 2.02 * 1000 / speed.step_ms.mean()
    assert bare_loops(trainer, [PART], processes=1, rounds=1000, steps=5, at_most_s=0).step_ms.shape == (1,)
    assert sustained_ms_per_step(steps_per_s=500, learners=256) == 640.0


def test_whoever_measures_and_is_interrupted_leaves_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted(descriptor: int) -> bytes:
        os.close(descriptor)
        raise KeyboardInterrupt

    monkeypatch.setattr("testbed.node.training_speed._read_all", interrupted)
    trainer = Trainer("mlp", {}, images(1, 8, 8), Settings(0.1, 8), seed=2)
    with pytest.raises(KeyboardInterrupt):
        bare_loops(trainer, [PART], processes=1, rounds=200, steps=5)
    os.wait()
    assert capfd.readouterr().err == ""
