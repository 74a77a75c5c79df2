"""Distances on the earth, and the latency of light in fibre.

Takes coordinates, gives distances and latencies, touches nothing.
"""

from __future__ import annotations

from math import asin, cos, radians, sin, sqrt
from typing import NamedTuple

from testbed.topologies.generate.sites import FIBRE_KM_PER_MS, LEAST_LATENCY_MS

_EARTH_RADIUS_KM = 6371.0088

CLOUD_ROUTE_FACTOR = 1.8
"""Ratio of the path between two cloud regions to the great circle.

The median over the 45 region pairs of the bundled round-trip times (`cloud-rtt.csv`), whose factors lie between 1.1
and 3.2: cables follow coasts, and traffic follows contracts.
"""


class Coordinates(NamedTuple):
    """Degrees; north and east are positive."""

    latitude: float
    longitude: float


def great_circle_km(a: Coordinates, b: Coordinates) -> float:
    """Distance along the surface of a sphere with the earth's mean radius."""
    north = radians(b.latitude - a.latitude)
    east = radians(b.longitude - a.longitude)
    chord = sin(north / 2) ** 2 + cos(radians(a.latitude)) * cos(radians(b.latitude)) * sin(east / 2) ** 2
    return 2 * _EARTH_RADIUS_KM * asin(sqrt(min(1.0, chord)))


def fibre_latency_ms(distance_km: float, route_factor: float = 1.0) -> float:
    """One-way latency of a fibre of that length times the route factor, to the microsecond."""
    return max(LEAST_LATENCY_MS, round(distance_km * route_factor / FIBRE_KM_PER_MS, 3))
