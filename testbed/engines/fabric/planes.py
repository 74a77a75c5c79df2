"""The data planes that a fabric can have, by name, and which one it has unless told otherwise.

A further one is a folder beside `python_plane`, and a line here.

Takes nothing, gives constants; touches nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from testbed.engines.fabric.data_plane import DataPlane, Setup
from testbed.engines.fabric.native_plane.plane import NativePlane
from testbed.engines.fabric.python_plane.plane import PythonPlane
from testbed.errors import UsageProblem

PLANES: dict[str, Callable[[Setup], DataPlane]] = {
    "python": PythonPlane,
    "native": NativePlane,
}


def default() -> str:
    """The name of the data plane that new runs have."""
    import os

    return os.environ.get("TESTBED_FABRIC", "native")


def make_plane(name: str, setup: Setup) -> DataPlane:
    """Raises UsageProblem for a name that no data plane has."""
    if name not in PLANES:
        raise UsageProblem(f"there is no data plane {name!r}", f"there are: {', '.join(PLANES)}")
    return PLANES[name](setup)
