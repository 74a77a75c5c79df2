"""How long a local step counts in emulated time when nobody has measured it.

Takes a model and a batch size, gives milliseconds on an imaginary device; touches nothing. Only arithmetic counts, so
that the same experiment takes the same emulated time on every machine.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

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
    with FlopCounterMode(display=False) as counter:  # for which torch loads its compiler, and that takes a second
        pass_forward(trainer, batch)
    return to_two_digits(max(_LEAST_MS, counter.get_total_flops() * _STEP_PER_FORWARD / _NOMINAL_FLOPS * 1000))


def pass_forward(trainer: Trainer, batch: int) -> None:
    """Nothing comes of it; raises what is wrong with a researcher's model."""
    dataset = trainer.dataset
    dtype = torch.int64 if dataset.kind is Kind.RATINGS else torch.float32
    inputs = torch.zeros((batch, *dataset.input_shape), dtype=dtype)
    with torch.no_grad(), trainer.blaming_own_code():
        trainer.module.eval()(inputs)


def to_two_digits(value: float) -> float:
    """As a person would write it; exact decimals, so that it prints the same everywhere."""
    return float(np.format_float_positional(value, precision=2, fractional=False))
