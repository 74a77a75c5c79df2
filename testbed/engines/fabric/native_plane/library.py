"""Loads the compiled core, or says why it cannot be loaded and what to do about that.

Takes nothing, gives the shared library; reads it and, where it is asked whether the library is current, its sources.
"""

from __future__ import annotations

import ctypes
import struct
from functools import cache
from pathlib import Path

from testbed.engines.fabric.native_plane.abi import FUNCTIONS, SIZES
from testbed.engines.fabric.native_plane.compile_core import digest
from testbed.errors import PreflightRefused

ABI = 2
"""The interface that `plane` uses, as `core_abi` tells it: a library with another number is not used."""
LIBRARY = Path(__file__).with_name("fabric_core.so")
_ELF_HEADER = struct.Struct("@16xHHIPPPIHHHHHH")
"""Of this machine's kind; the table of sections is the third address, its entries' size and number the last but two."""
_SLOWER = "about seven times slower"
"""The data plane in Python, beside this one: docs/performance.md."""
_COMPILE = (
    "compile it: python -m testbed.engines.fabric.native_plane.compile_core (with a C compiler, or after "
    "`pip install ziglang`)"
)


@cache
def load() -> ctypes.CDLL:
    """The library. Raises PreflightRefused for one that is missing, cannot be loaded, or has another interface."""
    if not LIBRARY.exists():
        raise PreflightRefused("the fabric's compiled core is not there", _COMPILE)
    try:
        _check_whole(LIBRARY)
        found = ctypes.CDLL(str(LIBRARY))
        found.core_abi.restype = ctypes.c_uint32
        if (abi := found.core_abi()) != ABI:
            raise PreflightRefused(f"the fabric's compiled core has interface {abi} where {ABI} is needed", _COMPILE)
        found.core_sources.restype = found.core_compiler.restype = ctypes.c_char_p
        found.core_sizes.restype = ctypes.POINTER(ctypes.c_uint32)
    except (OSError, AttributeError) as problem:
        raise PreflightRefused(f"the fabric's compiled core cannot be loaded: {problem}", _COMPILE) from None
    for (name, size), told in zip(SIZES.items(), found.core_sizes(), strict=False):  # its array has no end
        if told != size:
            message = f"the fabric's compiled core has {told} bytes in `{name}` where {size} are needed"
            raise PreflightRefused(message, _COMPILE)
    return found


def _check_whole(library: Path) -> None:
    """Raises OSError for a file that was cut short: a loader that reads past its end is killed, with its process.

    Linkers write the table of sections last.
    """
    data = library.read_bytes()
    *_, table_at, _, _, _, _, entry_bytes, entries, _ = _ELF_HEADER.unpack_from(data.ljust(_ELF_HEADER.size, b"\xff"))
    if table_at + entries * entry_bytes > len(data):
        raise OSError(f"{library}: the file is damaged")


@cache
def core() -> ctypes.CDLL:
    """The library with its functions typed; raises PreflightRefused as `load` does."""
    found = load()
    for name, (gives, *takes) in FUNCTIONS.items():
        function = getattr(found, name)
        function.restype, function.argtypes = gives, takes
    return found


def why_not() -> PreflightRefused | None:
    """Why the core cannot be used, and what to do; None if it can be.

    A library that was compiled from other sources than those beside it counts as missing: in a checkout, Python's part
    may be newer than the compiled one.
    """
    try:
        sources: bytes = load().core_sources()
    except PreflightRefused as problem:
        return problem
    if sources.decode() != digest():
        return PreflightRefused("the fabric's compiled core is older than its sources", _COMPILE)
    return None


def slower(why: str, what_to_do: str) -> str:
    """What is said of a run whose fabric is not compiled though nothing asks for that."""
    return f"the fabric runs in Python, {_SLOWER}: {why}; {what_to_do}"


def compiler() -> str:
    """What compiled the library that is loaded, with its version."""
    name: bytes = load().core_compiler()
    return name.decode()
