"""The seam of all ways of sharing: encode a model into a message, mix messages into a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from testbed.node.messages import MalformedModel, Message, Received, UnusableModel, snapshot
from testbed.node.state import NOTHING, State
from testbed.node.world import Vector

_Number = TypeVar("_Number", np.float32, np.int32)

MODEL = "model"
"""The kind of a message that carries a model, or a part of one."""
Decoded = tuple[NDArray[np.intp] | None, Vector]
"""Which parameters a message holds (None: all), and their values."""


class Sharing:
    """The whole model, as it is; other ways of sharing override `encode` and `decode`.

    A message may carry a part of the parameters. Whoever receives it fills in the rest with values of its own, so that
    a weight given to a parameter that is not there goes back to itself.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        """The node's stream for compression."""

    def begin(self, model: Vector) -> None:
        """Called once before the first round, with the model that the node starts from."""

    def message_bytes(self, parameters: int) -> int | None:  # noqa: ARG002 - for those that know
        """What a message takes without its header, for a model of so many parameters; None: nothing is said.

        Estimates ask those that do not come with the package (`testbed/catalogue` has the same of those that do).
        """
        return None

    def trained(self, change: Vector) -> None:
        """The node has trained: what that has changed in its model."""

    def state(self) -> State:
        """What it remembers from round to round besides the model, for the next life of a node with `rejoin: last`.

        `random` goes on by itself.
        """
        return NOTHING

    def restore(self, state: State) -> None:
        """Go on with what `state` gave in an earlier life; called after `begin`."""

    def encode(self, model: Vector, round_: int) -> Message:
        """One immutable message, for all recipients of this round."""
        return whole(model, round_)

    def decode(self, message: Message, parameters: int) -> Decoded:
        """What a message holds; raises MalformedModel for anything else."""
        return None, _all_values(message, parameters, MODEL)

    def average(self, model: Vector, received: Sequence[Received], degree: int | None = None) -> None:
        """Mix with Metropolis-Hastings weights: 1 / (1 + the larger of both degrees), the rest for the own model.

        On an undirected graph these weights keep the mean over all nodes, whatever its degrees. `degree` is that of
        this node; without it, everybody it sent to is taken to have answered.
        """
        own_degree = len(received) if degree is None else degree
        self.mix(model, received, [1.0 / (1 + max(own_degree, each.degree)) for each in received])

    def mean(self, model: Vector, received: Sequence[Received]) -> None:
        """The plain mean of the own model and all that are received."""
        self.mix(model, received, [1.0 / (1 + len(received))] * len(received))

    def adopt(self, model: Vector, received: Received) -> None:
        """Take over a whole model, such as a server's, bit for bit."""
        model[:] = whole_in(received, model.size)

    def mix(self, model: Vector, received: Sequence[Received], weights: Sequence[float]) -> None:
        """Add the received models with their weights; the own model has what is left of 1. In the order given."""
        decoded = [_usable(each, lambda message: self.decode(message, model.size)) for each in received]
        if all(places is None for places, _ in decoded):
            model *= np.float32(1.0 - sum(weights))
            scaled = np.empty_like(model)
            for (_, values), weight in zip(decoded, weights, strict=True):
                np.multiply(values, np.float32(weight), out=scaled)
                model += scaled
            return
        change = np.zeros_like(model)
        for (places, values), weight in zip(decoded, weights, strict=True):
            if places is None:
                change += np.float32(weight) * (values - model)
            else:
                change[places] += np.float32(weight) * (values - model[places])
        model += change


def whole_in(received: Received, parameters: int, what: str = MODEL) -> Vector:
    """A vector of all parameters that arrived; raises UnusableModel, which names the sender, for anything else."""
    return _usable(received, lambda message: (None, _all_values(message, parameters, what)))[1]


def _usable(received: Received, read: Callable[[Message], Decoded]) -> Decoded:
    """What was read; raises UnusableModel, which names the sender, for what is malformed or not finite."""
    try:
        places, values = read(received.message)
    except MalformedModel as problem:
        raise UnusableModel(received.sender, str(problem)) from None
    if not np.isfinite(values).all():
        raise UnusableModel(received.sender, "it holds NaN or infinite numbers")
    return places, values


def _all_values(message: Message, parameters: int, what: str) -> Vector:
    values = values_of(message)
    if values.size != parameters:
        raise MalformedModel(f"a {what} of {values.size} parameters arrived, {parameters} are expected")
    return values


def whole(model: Vector, round_: int) -> Message:
    """A message with all of a model, as it is now."""
    return Message(MODEL, round_, payload=(snapshot(model),))


def values_of(message: Message) -> Vector:
    """The only payload of a message: a vector of parameters. Raises MalformedModel for anything else."""
    if len(message.payload) != 1 or message.payload[0].dtype != np.float32 or message.payload[0].ndim != 1:
        shapes = ", ".join(f"{buffer.dtype} {buffer.shape}" for buffer in message.payload)
        raise MalformedModel(f"`{message.kind}` must carry one vector of float32, it carries: {shapes or 'nothing'}")
    return message.payload[0].view(np.float32)


def frozen(values: NDArray[_Number]) -> NDArray[_Number]:
    """The array that was just made for a message, not to be changed any more."""
    values.flags.writeable = False
    return values
