"""The declarations of `core/core.h` in Python. Takes nothing, gives types and sizes; touches nothing."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_int32, c_int64, c_uint32, c_void_p

import numpy as np
from numpy.typing import NDArray

from testbed.engines.fabric import delays, histogram
from testbed.engines.fabric.data_plane import BACKLOG
from testbed.engines.fabric.unfit import Unfit
from testbed.network.packets import WIRE_ROW

NO_PATH, BACKWARDS, BAD_RANK = -1, -2, -3
"""Results of functions of the model that are no numbers of segments."""

READ = 0
"""The kind of failures that are no packets to write."""
CAPTURE_FULL = -1
UNFIT = (
    Unfit.MALFORMED,
    Unfit.IPV6,
    Unfit.FOREIGN_SOURCE,
    Unfit.MULTICAST,
    Unfit.UNKNOWN_DESTINATION,
    Unfit.OVERSIZE,
    Unfit.OFFLOAD,
    BACKLOG,
)
"""In the core's order."""

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
        ("to_end_s", c_void_p),
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
        ("time_scale", c_double),
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


class ForwarderSetup(Structure):
    _fields_ = (
        ("model", POINTER(ModelSetup)),
        ("addresses", c_void_p),
        ("mtu", c_int64),
        ("most_held_bytes", c_int64),
        ("most_held_of_one_bytes", c_int64),
    )


class Delivery(Structure):
    _fields_ = (
        ("dest", c_int64),
        ("due_s", c_double),
        ("latency_s", c_double),
        ("packets", c_int64),
        ("size_bytes", c_int64),
        ("head", c_void_p),
        ("head_bytes", c_int64),
        ("tail", c_void_p),
        ("tail_bytes", c_int64),
    )


SINK = CFUNCTYPE(None, c_void_p, POINTER(Delivery))


class DelayLimits(Structure):
    _fields_ = tuple((name, c_double) for name in delays.DelayLimits._fields)


class Histogram(Structure):
    _fields_ = (("max_s", c_double), ("counts", c_int64 * histogram.LENGTH))


class Delays(Structure):
    _fields_ = (
        ("limits", DelayLimits),
        ("began_s", c_double),
        ("packets", c_int64),
        ("late", c_int64),
        ("far", c_int64),
        ("waited", c_int64),
        ("delayed", c_int64),
        ("added_s", c_double),
        ("latency_s", c_double),
        ("absent_s", c_double),
        ("longest_absence_s", c_double),
        ("lateness", Histogram),
        ("waits", Histogram),
        ("device_waits", Histogram),
    )


PORT_FIGURES = np.dtype(
    [(name, np.int64) for name in ("is_attached", "frames_in", "packets_out", "bytes_out", "absent")]
    + [("unfit", np.int64, len(UNFIT)), ("failures", np.int64, (16, 3))]
)
"""A failure is its kind, the number of the error, and how often it has occurred."""


class Lost(Structure):
    _fields_ = (("rank", c_int64), ("error", c_int64), ("descriptor", c_int64))


_MODEL = _FORWARDER = _PLANE = c_void_p
FUNCTIONS = {
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
    "core_forwarder_new": (_FORWARDER, POINTER(ForwarderSetup)),
    "core_forwarder_free": (None, _FORWARDER),
    "core_forwarder_model": (_MODEL, _FORWARDER),
    "core_forwarder_offer": (c_int64, _FORWARDER, c_double, c_int64, c_char_p, c_int64, c_double, c_void_p),
    "core_forwarder_take": (
        c_int64,
        _FORWARDER,
        c_int64,
        c_char_p,
        c_int64,
        c_int64,
        c_void_p,
        c_void_p,
        c_int64,
    ),
    "core_forwarder_advance": (c_int64, _FORWARDER, c_double, SINK, c_void_p),
    "core_forwarder_unfit": (None, _FORWARDER, c_int64, c_void_p),
    "core_plane_new": (_PLANE, POINTER(ForwarderSetup), c_int64, POINTER(DelayLimits)),
    "core_plane_free": (None, _PLANE),
    "core_plane_forwarder": (_FORWARDER, _PLANE),
    "core_plane_began": (c_double, _PLANE),
    "core_plane_attach": (c_int64, _PLANE, c_int64, c_int64),
    "core_plane_detach": (c_int64, _PLANE, c_int64),
    "core_plane_run": (c_int64, _PLANE, c_double, POINTER(Lost)),
    "core_plane_begin_capture": (None, _PLANE, c_int64, c_int64, c_int64),
    "core_plane_end_capture": (c_int64, _PLANE, c_int64),
    "core_plane_flush_captures": (None, _PLANE),
    "core_plane_ports": (None, _PLANE, c_void_p),
    "core_plane_delays": (POINTER(Delays), _PLANE),
    "core_plane_restart_delays": (None, _PLANE),
}
"""What each gives, and then what it takes."""

SIZES = {
    "core_wire": WIRE_ROW.itemsize,
    "core_routes": ctypes.sizeof(Routes),
    "core_change": ctypes.sizeof(Change),
    "core_model_setup": ctypes.sizeof(ModelSetup),
    "core_group": ctypes.sizeof(Group),
    "core_link_counts": LINK_COUNTS.itemsize,
    "core_pair_counts": PAIR_COUNTS.itemsize,
    "core_totals": ctypes.sizeof(Totals),
    "core_forwarder_setup": ctypes.sizeof(ForwarderSetup),
    "core_delivery": ctypes.sizeof(Delivery),
    "core_delay_limits": ctypes.sizeof(DelayLimits),
    "core_delays": ctypes.sizeof(Delays),
    "core_port_figures": PORT_FIGURES.itemsize,
    "core_lost": ctypes.sizeof(Lost),
}
"""Bytes of each structure, in the order in which `core_sizes` tells them."""


def address(array: NDArray[np.generic]) -> int:
    """Of an array's first element; the array has to be contiguous, and to live as long as the address is used."""
    if not array.flags.c_contiguous:
        raise ValueError("the core reads contiguous arrays")
    return array.ctypes.data
