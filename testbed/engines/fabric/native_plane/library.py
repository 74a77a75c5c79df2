"""Finds and loads the compiled core. Takes nothing, gives the library; touches its file."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

ABI = 1
FILE = Path(__file__).parent / "fabric_core.so"


@cache
def load() -> ctypes.CDLL:
    """Raises OSError where there is none, or one of another version."""
    library = ctypes.CDLL(str(FILE), use_errno=True)
    library.core_abi.restype = ctypes.c_uint32
    if library.core_abi() != ABI:
        raise OSError(f"{FILE.name} is of another version of testbed")
    return library
