"""The declarations of `core/core.h` in Python. Takes a library, gives its functions typed; touches nothing."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_double, c_int32, c_int64, c_uint32, c_void_p
from functools import cache

import numpy as np
from numpy.typing import NDArray

from testbed.engines.fabric.native_plane.library import load

NO_LINK, NOT_A_STUB = -1, -2
NO_PATH, BACKWARDS, BAD_RANK = -1, -2, -3
"""Results of functions of the model that are no numbers of segments."""

LINK_COUNTS = np.dtype(
    [(name, np.int64) for name in ("link", "packets", "bytes", "dropped_queue", "dropped_loss", "dropped_down")]
    + [("queue_s", np.float64), ("queue_max_s", np.float64)]
)
PAIR_COUNTS = np.dtype(
    [
        (name, np.int64)
        for name in (
            "origin",
            "dest",
            "offered_packets",
            "offered_bytes",
            "arrived_packets",
            "arrived_bytes",
            "dropped_packets",
        )
    ]
    + [("queue_s", np.float64)]
)


class Routes(Structure):
    _fields_ = (
        ("vertices", c_int32),
        ("trees", c_int32),
        ("via", c_void_p),
        ("edge_from", c_void_p),
        ("edge_link", c_void_p),
        ("tree_of", c_void_p),
        ("vertex_of", c_void_p),
        ("link_out", c_void_p),
        ("link_in", c_void_p),
    )


class Change(Structure):
    _fields_ = (
        ("changed", c_int64),
        ("links", c_void_p),
        ("wires", c_void_p),
        ("lookahead_s", c_void_p),
        ("last_hop_s", c_double),
        ("has_new_paths", c_int64),
        ("routes", POINTER(Routes)),
        ("partitions", c_int64),
        ("groups", c_void_p),
        ("is_cut", c_void_p),
    )


class ModelSetup(Structure):
    _fields_ = (
        ("nodes", c_int64),
        ("links", c_int64),
        ("loss_keys", c_void_p),
        ("jitter_keys", c_void_p),
        ("normal_table", c_void_p),
        ("window_s", c_double),
        ("window_share", c_double),
        ("longest_window_s", c_double),
        ("in_order", c_int64),
        ("first", POINTER(Change)),
    )


class Group(Structure):
    _fields_ = (
        ("segment", c_int64),
        ("origin", c_int32),
        ("dest", c_int32),
        ("due_s", c_double),
        ("latency_s", c_double),
        ("pieces", c_int64),
        ("first", c_int64),
    )


class Totals(Structure):
    _fields_ = (
        ("now_s", c_double),
        ("no_path", c_int64),
        ("taken", c_int64),
        ("used_links", c_int64),
        ("pairs", c_int64),
        ("held_segments", c_int64),
        ("held_bytes", c_int64),
    )


_MODEL = c_void_p
_FUNCTIONS = {
    "core_model_new": (_MODEL, POINTER(ModelSetup)),
    "core_model_free": (None, _MODEL),
    "core_model_offer": (c_int64, _MODEL, c_double, c_int64, c_int64, c_void_p, c_int64),
    "core_model_take": (
        c_int64,
        _MODEL,
        c_int64,
        c_int64,
        c_int64,
        c_int64,
        c_void_p,
        c_void_p,
        c_void_p,
        c_int64,
    ),
    "core_model_advance": (c_int64, _MODEL, c_double),
    "core_model_groups": (POINTER(Group), _MODEL),
    "core_model_group_pieces": (POINTER(c_uint32), _MODEL),
    "core_model_forget_groups": (None, _MODEL),
    "core_model_next": (c_double, _MODEL),
    "core_model_change": (c_int64, _MODEL, c_double, POINTER(Change)),
    "core_model_totals": (None, _MODEL, POINTER(Totals)),
    "core_model_links": (None, _MODEL, c_void_p),
    "core_model_pairs": (None, _MODEL, c_void_p),
    "core_model_release": (None, _MODEL),
}
"""What each gives and takes."""


@cache
def core() -> ctypes.CDLL:
    """The library with its functions typed; raises OSError as `library.load` does."""
    library = load()
    for name, (gives, *takes) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = gives, takes
    return library


def address(array: NDArray[np.generic]) -> int:
    """Of an array's first element; the array has to be contiguous, and to live as long as the address is used."""
    if not array.flags.c_contiguous:
        raise ValueError("the core reads contiguous arrays")
    return array.ctypes.data
