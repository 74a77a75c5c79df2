"""The base class of all sharings: encodes a model into a message, and mixes messages into a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from testbed.node.kinds import MODEL
from testbed.node.messages import MalformedModel, Message, Received, UnusableModel, snapshot
from testbed.node.state import NOTHING, State
from testbed.node.world import Vector

_Places = TypeVar("_Places")

Decoded = tuple[NDArray[np.intp] | None, Vector]
"""Which parameters a message holds (None: all), and their values."""


class Sharing:
    """Sends the whole model; other sharings override `encode` and `decode`.

    A message may carry a part of the parameters. The receiver fills in the rest with its own values, so the weight of a
    missing parameter goes to the own model.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        """The node's stream for compression."""

    def begin(self, model: Vector) -> None:
        """Called once before the first round, with the model that the node starts from."""

    def message_bytes(self, parameters: int) -> int | None:  # noqa: ARG002 - for subclasses
        """Bytes of a message without its header, for a model of that many parameters; None if unknown.

        Estimates call this for sharings from outside the package (for built-in ones, `testbed/catalogue` has it).
        """
        return None

    def trained(self, change: Vector) -> None:
        """Called after the node has trained, with the change of its model."""

    def state(self) -> State:
        """What the sharing remembers besides the model, to be restored after a crash with `rejoin: last`.

        The position of `random` is saved without it.
        """
        return NOTHING

    def restore(self, state: State) -> None:
        """Restores what `state` returned before the node went down; called after `begin`."""

    def encode(self, model: Vector, round_: int) -> Message:
        """One immutable message, for all recipients of this round."""
        return whole(model, round_)

    def decode(self, message: Message, parameters: int) -> Decoded:
        """Reads a message; raises MalformedModel if it does not hold such a part."""
        return None, _all_values(message, parameters, MODEL)

    def average(self, model: Vector, received: Sequence[Received], degree: int | None = None) -> None:
        """Mixes with Metropolis-Hastings weights: 1 / (1 + the larger of both degrees), the rest for the own model.

        On an undirected graph these weights keep the mean over all nodes, whatever its degrees. `degree` is that of
        this node; without it, all its recipients are assumed to have answered.
        """
        own_degree = len(received) if degree is None else degree
        self.mix(model, received, [1.0 / (1 + max(own_degree, each.degree)) for each in received])

    def mean(self, model: Vector, received: Sequence[Received]) -> None:
        """Takes the plain mean of the own model and all received ones."""
        self.mix(model, received, [1.0 / (1 + len(received))] * len(received))

    def adopt(self, model: Vector, received: Received) -> None:
        """Replaces the model by a received whole one, such as a server's, bit for bit."""
        model[:] = whole_in(received, model.size)

    def updated(self, model: Vector, received: Received) -> Vector:
        """The model with the parameters of a received one in place of its own; the given one stays as it is."""
        places, values = usable(received, lambda message: self.decode(message, model.size))
        if places is None:
            return values
        copy = model.copy()
        copy[places] = values
        return copy

    def mix(self, model: Vector, received: Sequence[Received], weights: Sequence[float]) -> None:
        """Adds the received models with their weights, in the given order; the own model has the rest of 1."""
        decoded = [usable(each, lambda message: self.decode(message, model.size)) for each in received]
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
    """A received vector of all parameters; raises UnusableModel, which names the sender, for anything else."""
    return usable(received, lambda message: (None, _all_values(message, parameters, what)))[1]


def usable(received: Received, read: Callable[[Message], tuple[_Places, Vector]]) -> tuple[_Places, Vector]:
    """The decoded message; raises UnusableModel, which names the sender, if it is malformed or not finite."""
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
    """A message with all parameters of a model."""
    return Message(MODEL, round_, payload=(snapshot(model),))


def values_of(message: Message) -> Vector:
    """The only payload of a message: a vector of parameters. Raises MalformedModel for anything else."""
    if len(message.payload) != 1 or message.payload[0].dtype != np.float32 or message.payload[0].ndim != 1:
        shapes = ", ".join(f"{buffer.dtype} {buffer.shape}" for buffer in message.payload)
        raise MalformedModel(f"`{message.kind}` must carry one vector of float32, it carries: {shapes or 'nothing'}")
    return message.payload[0].view(np.float32)
