"""The mapping between one flat vector and the weights of a torch module.

Takes a module, gives it weights from a vector, and a vector from its weights or gradients; touches nothing else.

A vector is float32 in the order of the module's state, with every floating-point value once (integer counters are not
in it). Inside the module, all trained values lie in one tensor and all gradients in another, so that a step of gradient
descent is one operation. Convolution kernels lie there with their channels last, which makes a step up to 1.5 times as
fast; the vector's order does not show that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Vector = NDArray[np.float32]


@dataclass(frozen=True)
class _Trained:
    """A tensor with a gradient: its place in the vector and inside."""

    tensor: nn.Parameter
    wire: slice
    inside: slice
    channels_last: bool

    def seen_in(self, flat: Vector) -> Vector:
        """The tensor's part of an inner flat array, as a view in the tensor's shape."""
        part = flat[self.inside]
        if not self.channels_last:
            return part.reshape(self.tensor.shape)
        out, channels, height, width = self.tensor.shape
        return part.reshape(out, height, width, channels).transpose(0, 3, 1, 2)


@dataclass(frozen=True)
class _Kept:
    """A tensor without a gradient, held by name: modules may replace it."""

    owner: nn.Module
    name: str
    wire: slice
    """Empty for tensors that are not in the vector."""
    at_first: Tensor

    def get(self) -> Vector:
        tensor = getattr(self.owner, self.name)
        assert isinstance(tensor, Tensor)  # noqa: S101 - it was one when the module was made
        return tensor.detach().numpy().ravel()

    def put(self, vector: Vector) -> None:
        value = self.at_first
        if self.wire.stop > self.wire.start:
            value = torch.tensor(vector[self.wire]).reshape(value.shape)
        current = getattr(self.owner, self.name)
        if isinstance(current, Tensor) and current.shape == value.shape:
            with torch.no_grad():
                current.copy_(value)
        else:
            setattr(self.owner, self.name, value.clone())


class _Flat:
    """One tensor with a number for every trained value, and views of it in the shapes of the module."""

    def __init__(self, trained: Sequence[_Trained]) -> None:
        self.tensor = torch.zeros(trained[-1].inside.stop if trained else 0)
        self.parts = [entry.seen_in(self.tensor.numpy()) for entry in trained]
        self._wires = [entry.wire for entry in trained]

    def load(self, vector: Vector) -> None:
        for wire, part in zip(self._wires, self.parts, strict=True):
            part[...] = vector[wire].reshape(part.shape)

    def store(self, out: Vector) -> None:
        for wire, part in zip(self._wires, self.parts, strict=True):
            out[wire].reshape(part.shape)[...] = part


class FlatModel:
    """A module whose weights are one vector."""

    def __init__(self, module: nn.Module, *, channels_last: bool) -> None:
        self.module = module
        self.parameters = 0
        """Values in the vector."""
        self._trained: list[_Trained] = []
        self._kept: list[_Kept] = []
        self._find(channels_last)
        self._weights, self._gradient, self._velocity = (_Flat(self._trained) for _ in range(3))
        self.weights, self.gradient, self.velocity = (
            flat.tensor for flat in (self._weights, self._gradient, self._velocity)
        )
        for entry, weights, gradient in zip(self._trained, self._weights.parts, self._gradient.parts, strict=True):
            weights[...] = entry.tensor.detach().numpy()
            entry.tensor.data = torch.from_numpy(weights)
            entry.tensor.grad = torch.from_numpy(gradient)

    def _find(self, channels_last: bool) -> None:
        seen: set[int] = set()
        inside = 0
        for path, tensor in self.module.state_dict(keep_vars=True).items():
            prefix, _, name = path.rpartition(".")
            owner = self.module.get_submodule(prefix)
            if id(tensor) in seen or not tensor.is_floating_point():
                continue  # a tensor that two modules share is one
            seen.add(id(tensor))
            wire = slice(self.parameters, self.parameters + tensor.numel())
            self.parameters = wire.stop
            if isinstance(tensor, nn.Parameter) and tensor.requires_grad:
                kernel = channels_last and isinstance(owner, nn.Conv2d) and tensor.dim() == 4
                place = slice(inside, inside + tensor.numel())
                inside = place.stop
                self._trained.append(_Trained(tensor, wire, place, kernel))
            else:
                self._kept.append(_Kept(owner, name, wire, tensor.detach().clone()))
        for owner in self.module.modules():
            for name, buffer in owner.named_buffers(recurse=False):
                if id(buffer) not in seen:
                    seen.add(id(buffer))
                    self._kept.append(_Kept(owner, name, slice(0, 0), buffer.detach().clone()))

    def load(self, vector: Vector) -> None:
        """Copies the vector into the module; counters start again."""
        self._weights.load(vector)
        for entry in self._kept:
            entry.put(vector)

    def store(self, out: Vector) -> None:
        """Copies the module's weights into the vector."""
        self._weights.store(out)
        for entry in self._in_vector():
            out[entry.wire] = entry.get()

    def load_velocity(self, vector: Vector) -> None:
        self._velocity.load(vector)

    def store_velocity(self, out: Vector) -> None:
        self._velocity.store(out)

    def store_gradient(self, out: Vector) -> None:
        """Copies the gradients into the vector; 0 for values that are not trained."""
        self._gradient.store(out)
        for entry in self._in_vector():
            out[entry.wire] = 0

    def _in_vector(self) -> Iterator[_Kept]:
        return (entry for entry in self._kept if entry.wire.stop > entry.wire.start)
