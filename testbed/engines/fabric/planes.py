"""The data planes that a fabric can have, by name, and the choice of one.

A further one is a folder beside `python_plane`, and a line here. All of them give the same schedule.

Takes names, gives data planes; asks whether the compiled core can be loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from testbed.engines.fabric.config import AUTO, NATIVE, PYTHON, wanted_plane
from testbed.engines.fabric.data_plane import DataPlane, Setup
from testbed.engines.fabric.native_plane import library
from testbed.engines.fabric.native_plane.plane import NativePlane
from testbed.engines.fabric.python_plane.plane import PythonPlane
from testbed.errors import UsageProblem

PLANES: dict[str, Callable[[Setup], DataPlane]] = {
    NATIVE: NativePlane,
    PYTHON: PythonPlane,
}


class ChosenPlane(NamedTuple):
    """A data plane, and why it is a slow one though nothing asked for that."""

    name: str
    remark: str = ""


def choose(asked: str | None = None) -> ChosenPlane:
    """The data plane that is asked for, by default in the environment.

    Raises PreflightRefused if that is the compiled one, and it cannot be loaded, and UsageProblem if there is none.
    """
    name = wanted_plane(asked)
    if name != AUTO and name not in PLANES:
        raise UsageProblem(f"there is no data plane `{name}`", f"there are: {', '.join(PLANES)}")
    if name not in (AUTO, NATIVE):
        return ChosenPlane(name)
    denied = library.why_not()
    if denied is None:
        return ChosenPlane(NATIVE)
    if name == NATIVE:
        raise denied
    return ChosenPlane(PYTHON, library.slower(denied.message, denied.hint))
