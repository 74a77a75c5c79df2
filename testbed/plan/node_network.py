"""Of a node's plan, only what its place in the network is like.

Takes the file, gives that; for a process that many others wait for, and for which the whole plan, with the types behind
it, is too much to load. Light: what only says what is wrong is loaded where something is.
"""

from __future__ import annotations

import json
import math
import os

TYPE_CHECKING = False  # `typing` takes longer to load than all else in here
if TYPE_CHECKING:
    from typing import TypeGuard


def read_node_network(path: str | os.PathLike[str]) -> tuple[str, str, float]:
    """The node's address, its TCP's congestion control and time scale; raises InvalidInput for what is no plan."""
    try:
        with open(path, "rb") as file:
            plan = json.loads(file.read())
        address: object = plan["node"]["address"]
        congestion: object = plan["experiment"]["network"]["congestion"]
        time_scale: object = plan["time_scale"]
        if isinstance(address, str) and isinstance(congestion, str) and _is_positive(time_scale):
            return address, congestion, float(time_scale)
        problem: object = "a value is of the wrong kind"
    except (OSError, ValueError, ArithmeticError, LookupError, TypeError, RecursionError) as why:
        problem = why
    from testbed.errors import InvalidInput, error

    raise InvalidInput(os.fspath(path), [error("bad-shape", f"not a node's plan: {problem}")])


def _is_positive(number: object) -> TypeGuard[float]:
    return isinstance(number, int | float) and number is not True and 0 < number < math.inf
