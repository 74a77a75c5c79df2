"""The ways of sharing that come with the package: what a plan and an estimate must know of each.

Pure. An entry is all that is said of a sharing outside of its own file, `docs/algorithms.md` and its tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from testbed.catalogue.options import Option, Type, Values, number
from testbed.catalogue.tables import by_name

_VALUE_BYTES = 4
_PLACE_BYTES = 4


@dataclass(frozen=True)
class SharingFacts:
    """One way of sharing."""

    name: str
    code: str
    summary: str
    options: tuple[Option, ...]
    message_bytes: Callable[[int, Values], int]
    """What a message takes without its header, by the number of the model's parameters and the options; on average
    where it is not always the same."""
    same_neighbours: bool
    """It remembers something of each neighbour, so the overlay must be the same in every round."""


def whole_model_bytes(parameters: int, _options: Values) -> int:
    """All parameters, as they are."""
    return _VALUE_BYTES * parameters


def _part_bytes(each_bytes: int) -> Callable[[int, Values], int]:
    """Of a `fraction` of the parameters; from `dense_above` on of all, without places."""

    def size(parameters: int, options: Values) -> int:
        fraction = number(options, "fraction")
        if fraction >= number(options, "dense_above"):
            return whole_model_bytes(parameters, options)
        return each_bytes * round(fraction * parameters)

    return size


_PACKAGE = "testbed.node.sharing"
_PART = (
    Option("fraction", Type.SHARE, 0.1, "Part of the parameters that is sent."),
    Option("dense_above", Type.SHARE, 0.5, "From this fraction on the whole model is sent."),
)

DEFAULT_SHARING = "full"
SHARINGS = by_name(
    SharingFacts(
        name="full",
        code=f"{_PACKAGE}.base:Sharing",
        summary="the whole model",
        options=(),
        message_bytes=whole_model_bytes,
        same_neighbours=False,
    ),
    SharingFacts(
        name="random",
        code=f"{_PACKAGE}.random_sampling:RandomSampling",
        summary="a random part of the parameters, another one in every message",
        options=_PART,
        message_bytes=_part_bytes(_VALUE_BYTES),
        same_neighbours=False,
    ),
    SharingFacts(
        name="topk",
        code=f"{_PACKAGE}.topk:TopK",
        summary="the parameters that training has changed most since they were last sent",
        options=_PART,
        message_bytes=_part_bytes(_VALUE_BYTES + _PLACE_BYTES),
        same_neighbours=False,
    ),
)
