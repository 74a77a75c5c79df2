"""The nominal emulated time of a local step, computed and not measured.

Takes a model and a batch size, gives milliseconds on a nominal device; touches nothing. Only arithmetic counts, so the
same experiment takes the same emulated time on every machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from testbed.node.data.dataset import Kind
from testbed.node.training import Trainer

_NOMINAL_FLOPS = 20e9
"""Operations per second of the nominal device: about one core of a small server with small batches."""
_STEP_PER_FORWARD = 3
"""A backward pass costs twice a forward pass."""
_LEAST_MS = 10.0
"""Overhead per step on the nominal device: for a small model it is larger than the arithmetic."""


def nominal_ms_per_step(trainer: Trainer, batch: int) -> float:
    """Milliseconds of one local step on the nominal device, to two significant digits."""
    return to_two_digits(max(_LEAST_MS, count_operations(trainer, batch) * _STEP_PER_FORWARD / _NOMINAL_FLOPS * 1000))


def count_operations(trainer: Trainer, batch: int) -> int:
    """Floating-point operations of a forward pass."""
    counter = _OperationCounter()
    with counter:
        pass_forward(trainer, batch)
    return counter.operations


def pass_forward(trainer: Trainer, batch: int) -> None:
    """Runs a forward pass for its errors only: raises those of a researcher's model."""
    dataset = trainer.dataset
    dtype = torch.int64 if dataset.kind is Kind.RATINGS else torch.float32
    inputs = torch.zeros((batch, *dataset.input_shape), dtype=dtype)
    with torch.no_grad(), trainer.blaming_own_code():
        trainer.module.eval()(inputs)


class _OperationCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts as torch's own `FlopCounterMode` does, without loading torch's compiler, which takes a second."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Keeps torch from loading its compiler to answer this."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        count = flop_registry.get(func._overloadpacket)
        if count is not None:
            self.operations += count(*args, **(kwargs or {}), out_val=result)
        return result


def to_two_digits(value: float) -> float:
    """Rounded to two significant digits with exact decimals, so that it prints the same everywhere."""
    return float(np.format_float_positional(value, precision=2, fractional=False))
