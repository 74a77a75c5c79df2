"""How long a local step counts in emulated time when nobody has measured it.

Takes a model and a batch size, gives milliseconds on an imaginary device; touches nothing. Only arithmetic counts, so
that the same experiment takes the same emulated time on every machine.
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
"""Of the imaginary device, per second: about one core of a small server, as such small batches use it."""
_STEP_PER_FORWARD = 3
"""A backward pass costs twice a forward pass."""
_LEAST_MS = 10.0
"""Of the same device: what surrounds the arithmetic of a small model costs more than the model."""


def nominal_ms_per_step(trainer: Trainer, batch: int) -> float:
    """Milliseconds of one local step on the imaginary device, to two significant digits."""
    return to_two_digits(max(_LEAST_MS, count_operations(trainer, batch) * _STEP_PER_FORWARD / _NOMINAL_FLOPS * 1000))


def count_operations(trainer: Trainer, batch: int) -> int:
    """Floating-point operations of a forward pass."""
    counter = _OperationCounter()
    with counter:
        pass_forward(trainer, batch)
    return counter.operations


def pass_forward(trainer: Trainer, batch: int) -> None:
    """Nothing comes of it; raises what is wrong with a researcher's model."""
    dataset = trainer.dataset
    dtype = torch.int64 if dataset.kind is Kind.RATINGS else torch.float32
    inputs = torch.zeros((batch, *dataset.input_shape), dtype=dtype)
    with torch.no_grad(), trainer.blaming_own_code():
        trainer.module.eval()(inputs)


class _OperationCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts what torch's own `FlopCounterMode` counts, without loading torch's compiler, which takes a second."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """What torch would load its compiler for: there is nothing to keep from being compiled."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        count = flop_registry.get(func._overloadpacket)
        if count is not None:
            self.operations += count(*args, **(kwargs or {}), out_val=result)
        return result


def to_two_digits(value: float) -> float:
    """As a person would write it; exact decimals, so that it prints the same everywhere."""
    return float(np.format_float_positional(value, precision=2, fractional=False))
