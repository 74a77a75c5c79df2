"""What a node needs of the world it lives in: a clock, a network, somebody who computes, and somebody who watches.

Protocols only. In virtual time `runtimes/sim` implements them; with real sockets a node's own process does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from testbed.node.messages import Message
from testbed.records import AnyRecord

Vector = NDArray[np.float32]


class Alarm(Protocol):
    """Something that will be called at its time."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Emulated seconds since the start barrier."""

    def now(self) -> float: ...

    def call_at(self, t: float, callback: Callable[[], None]) -> Alarm: ...


class Shipment(Protocol):
    """One message on its way to one peer."""

    def abort(self) -> int:
        """Give up what has not left yet; how many bytes had."""


class Transport(Protocol):
    """Carries messages; whoever made it says where those that arrive go."""

    def ship(self, to: int, message: Message, on_left: Callable[[], None]) -> Shipment:
        """Start to send; `on_left` is called once, when the last byte has left this node."""


class Score(Protocol):
    """How good a model is on some samples."""

    @property
    def accuracy(self) -> float | None: ...

    @property
    def loss(self) -> float: ...

    @property
    def samples(self) -> int: ...


class Pending(Protocol):
    """A score that may still be in the making."""

    @property
    def is_done(self) -> bool:
        """Whether `result` need not wait; always where waiting takes no emulated time."""

    def result(self) -> Score: ...


class Trained(NamedTuple):
    """What came of some local steps; the arrays hold until the node trains again."""

    loss: float
    """Their mean."""
    before: Vector
    after: Vector
    """What the steps alone made of `before`."""


class Compute(Protocol):
    """Trains and tries one node's model. Training takes emulated time, and acts on a copy until it is done."""

    @property
    def parameters(self) -> int: ...

    @property
    def samples(self) -> int:
        """How many samples are the node's own."""

    @property
    def tested_on(self) -> str:
        """Which data scores are of, as journals say it."""

    def initial(self) -> Vector:
        """The weights that every node starts from; a copy."""

    def steps_per_round(self) -> int: ...

    async def train(self, model: Vector, first_step: int, steps: int) -> Trained:
        """Do local steps; what they changed is added to the model in one go at the end."""

    async def gradient(self, model: Vector, step: int) -> tuple[float, Vector]:
        """Loss and gradient of one minibatch."""

    def evaluate(self, model: Vector) -> Pending:
        """Try a copy of the model; takes no emulated time."""

    async def evaluate_inline(self, model: Vector) -> Score:
        """The same as work of the node's own, which takes its time."""


class Observer(Protocol):
    """Hears what happens; out of band."""

    def recorded(self, rank: int, record: AnyRecord) -> None: ...

    def model(self, rank: int, round_: int, vector: Vector) -> None:
        """The model after a round that is evaluated; not changed any more."""
