"""What a node needs of its runtime: a clock, a transport, computing, and an observer.

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
    """A scheduled call."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Emulated seconds since the start barrier."""

    def now(self) -> float: ...

    def call_at(self, t: float, callback: Callable[[], None]) -> Alarm: ...


class Shipment(Protocol):
    """One message under way to one peer."""

    def sent_bytes(self) -> int:
        """Bytes of the message that have left this node; never less than before, even if they must be sent again."""

    def quiet_s(self) -> float:
        """Emulated seconds since the peer took any of it, or since the start if it has taken nothing."""

    def abort(self, *, at_once: bool = False) -> int:
        """Stops the sending; gives the number of bytes that have left.

        All of them if so little is unsent that it leaves and arrives nevertheless; not so `at_once`.
        """


class Transport(Protocol):
    """Carries messages; its maker decides where arriving messages go."""

    def ship(self, to: int, message: Message, on_left: Callable[[], None]) -> Shipment:
        """Starts to send; `on_left` is called once, when the last byte has left this node."""


class Score(Protocol):
    """How good a model is on some samples."""

    @property
    def accuracy(self) -> float | None: ...

    @property
    def loss(self) -> float: ...

    @property
    def samples(self) -> int: ...


class Pending(Protocol):
    """A score that may still be computed."""

    @property
    def is_done(self) -> bool:
        """Whether `result` need not wait; always true if waiting takes no emulated time."""

    async def ended(self) -> None:
        """Waits until `result` need not."""

    def result(self) -> Score: ...


class Trained(NamedTuple):
    """The result of some local steps; the arrays are valid until the node trains again."""

    loss: float
    """Their mean."""
    before: Vector
    after: Vector
    """`before` after the steps alone."""


class Compute(Protocol):
    """Trains and evaluates one node's model. Training takes emulated time, and acts on a copy until it is done."""

    @property
    def parameters(self) -> int: ...

    @property
    def samples(self) -> int:
        """The number of the node's samples."""

    @property
    def tested_on(self) -> str:
        """The data of scores, as named in journals."""

    def initial(self) -> Vector:
        """The weights that every node starts from; a copy."""

    def steps_per_round(self) -> int: ...

    async def train(self, model: Vector, first_step: int, steps: int) -> Trained:
        """Does local steps; their change is added to the model once, at the end."""

    async def gradient(self, model: Vector, step: int) -> tuple[float, Vector]:
        """Loss and gradient of one minibatch."""

    def evaluate(self, model: Vector) -> Pending:
        """Evaluates a copy of the model; takes no emulated time."""

    async def evaluate_inline(self, model: Vector) -> Score:
        """Evaluates the model as work of the node, which takes emulated time."""


class Observer(Protocol):
    """Is told of records and models, out of band."""

    def recorded(self, rank: int, record: AnyRecord) -> None: ...

    def model(self, rank: int, round_: int, vector: Vector) -> None:
        """The model after an evaluated round; it is not changed any more."""
