"""Trains and evaluates models: one module, one data set and one set of settings, for any number of learners.

Takes a learner's vector and the numbers of its local steps, gives the trained vector and the loss; touches nothing. A
result depends only on the arguments, never on what the process did before, so any process can do any step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from testbed.code import CodeProblem, is_code, problem_in
from testbed.node.data.dataset import DataSet, Samples
from testbed.node.evaluation import Turn, evaluate
from testbed.node.minibatches import Minibatches
from testbed.node.models.build import build_model
from testbed.node.training_batch import Indices, batch_of, loss_of
from testbed.node.training_layout import FlatModel, Vector
from testbed.node.training_settings import Score, Settings, TrainingFailed
from testbed.seeds import derive

__all__ = ["Score", "Settings", "Trainer", "TrainingFailed"]

_TOO_FAST = "most often the steps are too long: lower training.lr"


class Trainer:
    """Stochastic gradient descent on any learner's vector.

    Torch uses one thread: two on busy cores are many times slower, and only a process with one thread can be forked.
    Torch's own random numbers (dropout) are seeded at every step.
    """

    def __init__(
        self, model: str, model_options: Mapping[str, object], dataset: DataSet, settings: Settings, seed: int
    ) -> None:
        torch.set_num_threads(1)
        self.dataset = dataset
        self.settings = settings
        self._spec = model
        self._seed = seed
        module = build_model(model, model_options, dataset, seed)
        # Convolutions are up to 1.5 times as fast that way.
        self._channels_last = len(dataset.input_shape) == 3 and any(
            isinstance(each, nn.Conv2d) for each in module.modules()
        )
        self._flat = FlatModel(module, channels_last=self._channels_last)
        self._minibatches = Minibatches(seed, settings.batch)
        self.parameters = self._flat.parameters
        self._initial = np.empty(self.parameters, np.float32)
        self._flat.store(self._initial)

    @property
    def module(self) -> nn.Module:
        """The module, with the weights of the latest work."""
        return self._flat.module

    def initial(self) -> NDArray[np.float32]:
        """The weights that every node starts from; a copy."""
        return self._initial.copy()

    def steps_per_round(self, samples: int) -> int:
        """Local steps in a round of a learner with that many samples."""
        if self.settings.steps is not None:
            return self.settings.steps
        return (self.settings.epochs or 1) * self._minibatches.per_epoch(samples)

    def train(
        self,
        vector: Vector,
        *,
        learner: int,
        indices: Indices,
        first_step: int,
        steps: int,
        velocity: Vector | None,
        out: Vector,
    ) -> float:
        """Does local steps from a vector and gives their mean loss. The vector stays unchanged; `out` gets the result.

        The velocity, needed with momentum only, is updated in place. Nothing is written on failure.
        """
        flat, momentum, lr = self._flat, self.settings.momentum, self.settings.lr
        with self.blaming_own_code():
            flat.load(vector)
            if momentum:
                if velocity is None:
                    raise ValueError("momentum needs a velocity")
                flat.load_velocity(velocity)
            total = 0.0
            for step in range(first_step, first_step + steps):
                total += self._descend(learner, indices, step)
                if momentum:
                    flat.velocity.mul_(momentum).add_(flat.gradient)
                    flat.weights.add_(flat.velocity, alpha=-lr)
                else:
                    flat.weights.add_(flat.gradient, alpha=-lr)
                # A sum is NaN as soon as one of its terms is.
                if not math.isfinite(flat.weights.sum().item()):
                    raise TrainingFailed(
                        f"the weights are no finite numbers any more after local step {step}; {_TOO_FAST}"
                    )
        flat.store(out)
        if momentum and velocity is not None:
            flat.store_velocity(velocity)
        return total / steps if steps else 0.0

    def gradient(self, vector: Vector, *, learner: int, indices: Indices, step: int, out: Vector) -> float:
        """Loss of one minibatch at a vector; `out` gets its gradient, weight decay included."""
        with self.blaming_own_code():
            self._flat.load(vector)
            loss = self._descend(learner, indices, step)
        if not math.isfinite(self._flat.gradient.sum().item()):
            raise TrainingFailed(f"the gradient is no finite numbers at local step {step}; {_TOO_FAST}")
        self._flat.store_gradient(out)
        return loss

    def evaluate(self, vector: Vector, indices: Indices, *, on: Samples, turn: Turn = nullcontext) -> Score:
        """Score of a vector on the chosen samples."""
        with self.blaming_own_code():
            self._flat.load(vector)
            torch.default_generator.manual_seed(derive(self._seed, "evaluate"))
            return evaluate(self._flat.module, self.dataset, on, indices, channels_last=self._channels_last, turn=turn)

    def warm(self) -> None:
        """Does everything once, so that processes forked from this one share what is loaded; results are dropped."""
        some = np.arange(min(len(self.dataset.train), self.settings.batch))
        rest = np.empty_like(self._initial)
        velocity = np.zeros_like(self._initial)
        try:
            self.train(self._initial, learner=0, indices=some, first_step=0, steps=1, velocity=velocity, out=rest)
            self.evaluate(self._initial, some, on=self.dataset.train)
        except TrainingFailed:
            return  # the learner's own step will report it

    def _descend(self, learner: int, indices: Indices, step: int) -> float:
        """Loss of one minibatch; the gradient stays in the module."""
        if not len(indices):
            raise TrainingFailed("there are no samples to train on")
        flat = self._flat
        torch.default_generator.manual_seed(derive(self._seed, "forward", str(learner), str(step)))
        flat.module.train()
        chosen = indices[self._minibatches.positions(learner, len(indices), step)]
        inputs, targets = batch_of(self.dataset, self.dataset.train, chosen, channels_last=self._channels_last)
        flat.gradient.zero_()
        loss = loss_of(flat.module, self.dataset.kind, flat.module(inputs), targets)
        value = float(loss.item())
        if not math.isfinite(value):
            raise TrainingFailed(f"the loss is {value} at local step {step}; {_TOO_FAST}")
        torch.autograd.backward(loss)
        if self.settings.weight_decay:
            flat.gradient.add_(flat.weights, alpha=self.settings.weight_decay)
        return value

    @contextmanager
    def blaming_own_code(self) -> Iterator[None]:
        """Reports errors of a researcher's model with the place in its file."""
        try:
            yield
        except (TrainingFailed, CodeProblem):
            raise
        except (Exception, SystemExit) as problem:
            if is_code(self._spec):
                raise problem_in(self._spec, problem) from problem
            raise
