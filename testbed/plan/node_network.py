"""Reads the network settings of a node's plan, and nothing else.

Takes the file, gives the settings. For a process that many others wait for: loading the whole plan with its types would
take too long. Light: modules for error messages are imported only on an error.
"""

from __future__ import annotations

import json
import math
import os

TYPE_CHECKING = False  # `typing` takes longer to load than everything else here
if TYPE_CHECKING:
    from typing import TypeGuard


def read_node_network(path: str | os.PathLike[str]) -> tuple[str, str, float]:
    """The node's address, TCP's congestion control and time scale; raises InvalidInput for a malformed plan."""
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
