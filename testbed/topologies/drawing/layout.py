"""Layout: places whose distances on paper follow the lengths of the lines between them.

Takes sizes and lengths, gives positions; touches nothing. Every network gets a layout: pieces that are not
connected are laid out apart and packed; too many places for exact distances are placed by a few landmarks.
Equal input gives equal positions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

import networkx as nx
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Places = NDArray[np.int64]
Edge = tuple[int, int, float]

EXACT_PLACES = 1100
"""Up to here every pair's distance counts (time grows with the cube)."""
_LANDMARKS = 24
_SWEEPS = 120
_SWEEPS_PER_LOOK = 10
_FINE_UP_TO = 300
"""Larger layouts get fewer sweeps, and one start only."""
_ALMOST_EQUAL = 1.35
_BETWEEN_PIECES = 60.0
_GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))


def arrange(radii: Sequence[float], edges: Sequence[Edge], gap: float) -> Array:
    """Centres for discs of these radii, at least `gap` apart where that is feasible; the top left is (0, 0)."""
    sizes = np.asarray(radii, dtype=np.float64)
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(len(sizes)))
    for first, second, length in edges:
        graph.add_edge(first, second, length=length)
    pieces = sorted((sorted(piece) for piece in nx.connected_components(graph)), key=lambda piece: (-len(piece), piece))
    centres = np.zeros((len(sizes), 2))
    laid_out = []
    for piece in pieces:
        part = _piece(graph, piece, sizes[piece], gap)
        margin = sizes[piece][:, None]
        low, high = (part - margin).min(axis=0), (part + margin).max(axis=0)
        centres[piece] = part - low
        laid_out.append((piece, high - low))
    _pack(centres, laid_out, min(gap, _BETWEEN_PIECES))
    return np.asarray(np.round(centres, 3) + 0.0)


def _piece(graph: nx.Graph[int], piece: list[int], sizes: Array, gap: float) -> Array:
    """One connected piece, around its own origin."""
    if len(piece) == 1:
        return np.zeros((1, 2))
    if len(piece) <= EXACT_PLACES:
        distances = _all_distances(graph, piece)
        shape = _by_stress(distances)
    else:
        shape = _by_landmarks(graph, piece)
    shape = _upright(shape)
    chain_or_ring = max(degree for _, degree in graph.degree(piece)) <= 2
    return _apart(_scaled(shape, sizes, gap, chain_or_ring), sizes, gap)


def _all_distances(graph: nx.Graph[int], piece: list[int]) -> Array:
    """The length of the shortest way between every two places (Floyd and Warshall's recurrence, a row at a time)."""
    index = {place: at for at, place in enumerate(piece)}
    distances = np.full((len(piece), len(piece)), np.inf)
    np.fill_diagonal(distances, 0.0)
    for first, second in graph.subgraph(piece).edges:
        a, b = index[first], index[second]
        distances[a, b] = distances[b, a] = graph.edges[first, second]["length"]
    for via in range(len(piece)):
        np.minimum(distances, distances[:, via : via + 1] + distances[via : via + 1, :], out=distances)
    return distances


def _by_stress(distances: Array) -> Array:
    """Kamada and Kawai's aim, reached by majorization from two starts: a circle and classical scaling."""
    count = len(distances)
    apart = distances[~np.eye(count, dtype=bool)]
    start = _classical(distances)
    circle = _circle(start)
    if count > 2 and apart.max() / apart.min() < _ALMOST_EQUAL:
        return circle  # everyone is as far from everyone: only a circle treats them alike
    starts = (circle, start) if count <= _FINE_UP_TO else (start,)
    best = min((_majorized(distances, first) for first in starts), key=lambda found: round(found[1], 9))
    return best[0]


def _classical(distances: Array) -> Array:
    """Torgerson's scaling: exact when the distances lie in a plane."""
    squared = distances**2
    centred = -0.5 * (squared - squared.mean(axis=0) - squared.mean(axis=1)[:, None] + squared.mean())
    values, vectors = np.linalg.eigh(centred)
    axes = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))
    return np.asarray(_signed(axes))


def _signed(axes: Array) -> Array:
    """Eigenvectors have no sign of their own: make each one's greatest entry positive."""
    greatest = np.abs(axes).argmax(axis=0)
    signs = np.sign(axes[greatest, range(axes.shape[1])])
    return np.asarray(axes * np.where(signs == 0, 1.0, signs))


def _circle(around: Array) -> Array:
    """The places on one circle, in the order of their angles; where those say nothing, in the given order."""
    spread = around - around.mean(axis=0)
    angles = np.round(np.arctan2(spread[:, 1], spread[:, 0]), 6)
    lopsided = np.linalg.norm(spread, axis=1)
    order = (
        np.arange(len(around)) if lopsided.min() < 0.3 * lopsided.max() else np.lexsort((range(len(around)), angles))
    )
    turns = np.empty(len(around))
    turns[order] = np.arange(len(around)) * (2 * math.pi / len(around)) - math.pi / 2
    return np.column_stack((np.cos(turns), np.sin(turns)))


def _majorized(distances: Array, start: Array) -> tuple[Array, float]:
    """Positions whose mutual distances come as close as they can to those asked for, and what is still wrong."""
    count = len(distances)
    with np.errstate(divide="ignore"):
        weights = np.where(distances > 0, distances**-2.0, 0.0)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    inverse = np.linalg.inv(laplacian + 1.0 / count) - 1.0 / count
    wanted = weights * distances
    current = start * (np.mean(distances) / max(float(np.mean(_lengths(start))), 1e-9))
    # Places that start at one point would stay there for ever: no direction leads them apart.
    current = current + np.column_stack((np.cos(np.arange(count)), np.sin(np.arange(count)))) * distances.max() * 1e-3
    for _ in range(_SWEEPS if count <= _FINE_UP_TO else _SWEEPS // 4):
        lengths = _lengths(current)
        pull = -wanted / np.maximum(lengths, 1e-9)
        np.fill_diagonal(pull, 0.0)
        np.fill_diagonal(pull, -pull.sum(axis=1))
        current = inverse @ (pull @ current)
    return current, float((weights * (_lengths(current) - distances) ** 2).sum())


def _lengths(points: Array) -> Array:
    """Every pair's distance on paper."""
    return np.asarray(np.hypot(*(points[:, None, axis] - points[None, :, axis] for axis in (0, 1))))


def _by_landmarks(graph: nx.Graph[int], piece: list[int]) -> Array:
    """Two axes that best keep everyone's distances from a few landmarks, each as far as possible from the others."""
    rows: list[Array] = []
    nearest = np.full(len(piece), np.inf)
    landmark = piece[0]
    for _ in range(_LANDMARKS):
        lengths = nx.single_source_dijkstra_path_length(graph, landmark, weight="length")
        rows.append(np.array([lengths[place] for place in piece]))
        nearest = np.minimum(nearest, rows[-1])
        landmark = piece[int(nearest.argmax())]
    squared = np.column_stack(rows) ** 2
    centred = squared - squared.mean(axis=0) - squared.mean(axis=1)[:, None] + squared.mean()
    _, vectors = np.linalg.eigh(centred.T @ centred)
    flat = -0.5 * centred @ _signed(vectors[:, -2:])
    return np.asarray(flat + _sunflowers(flat) * float(np.abs(flat).max()) * 0.01)


def _sunflowers(points: Array) -> Array:
    """Offsets for points at one spot (leaves of one parent have the same distances), growing like sunflower seeds."""
    seen: Counter[tuple[float, float]] = Counter()
    offsets = np.zeros_like(points)
    grain = max(float(np.abs(points).max()), 1e-9) * 1e-4
    for at, (x, y) in enumerate(np.round(points / grain)):
        count = seen[float(x), float(y)]
        seen[float(x), float(y)] += 1
        offsets[at] = (
            math.sqrt(count) * math.cos(count * _GOLDEN_ANGLE),
            math.sqrt(count) * math.sin(count * _GOLDEN_ANGLE),
        )
    return offsets


def _upright(points: Array) -> Array:
    """The long side across the page; a round one with its first place at the top."""
    centred = points - points.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    if values[1] > 1.15 * values[0]:
        turned = centred @ vectors[:, ::-1]
        # Which way round is arbitrary: the first place goes to the left and up.
        return np.asarray(turned * np.where(turned[0] > 1e-9, -1.0, 1.0))
    angle = -math.pi / 2 - math.atan2(centred[0, 1], centred[0, 0])
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    turned = centred @ turn
    return np.asarray(turned * np.array([-1.0 if turned[1, 0] < -1e-9 else 1.0, 1.0]))


def _scaled(points: Array, sizes: Array, gap: float, thin: bool) -> Array:
    """Large enough for most neighbours not to touch, small enough not to be mostly empty."""
    distances = _lengths(points)
    np.fill_diagonal(distances, np.inf)
    nearest = distances.argmin(axis=1)
    room = sizes + sizes[nearest] + gap
    needed = room / np.maximum(distances[range(len(points)), nearest], 1e-9)
    if thin:  # it may be as large as it must: folding it up would hide what it is
        return np.asarray(points * float(np.quantile(needed, 0.9)))
    extent = max(float(np.ptp(points, axis=0).max()), 1e-9)
    roomy = math.sqrt(float(((2 * sizes + gap) ** 2).sum())) * 2.2
    return np.asarray(points * max(min(float(np.quantile(needed, 0.6)), max(roomy, room.max()) / extent), 1e-9))


def _apart(points: Array, sizes: Array, gap: float) -> Array:
    """The same picture with overlapping discs pushed apart."""
    if len(points) > 2 * EXACT_PLACES:
        return points
    current = points.copy()
    reach = 2 * float(sizes.max()) + gap
    for _ in range(_SWEEPS // _SWEEPS_PER_LOOK):
        # Only who is near can come to overlap in the next few sweeps: looking at all pairs each time would be slow.
        one, other = np.nonzero(np.triu(_lengths(current) < 2 * reach, k=1))
        wanted = sizes[one] + sizes[other] + gap
        if not _pushed(current, one, other, wanted):
            break
    return current


def _pushed(current: Array, one: Places, other: Places, wanted: Array) -> bool:
    """Pushes pairs that are too close, in place; says whether there were any at the end."""
    for _ in range(_SWEEPS_PER_LOOK):
        between = current[one] - current[other]
        lengths = np.hypot(between[:, 0], between[:, 1])
        short = np.maximum(wanted - lengths, 0.0)
        if short.max(initial=0.0) < 0.5:
            return False
        push = between * (short / np.maximum(lengths, 1e-6))[:, None]
        pressed = short > 0
        crowd = np.bincount(one[pressed], minlength=len(current)) + np.bincount(other[pressed], minlength=len(current))
        gentle = 1.2 * np.sqrt(np.maximum(crowd, 1))
        for axis in (0, 1):
            there = np.bincount(one, push[:, axis], len(current)) - np.bincount(other, push[:, axis], len(current))
            current[:, axis] += there / gentle
    return True


def _pack(centres: Array, pieces: Iterable[tuple[list[int], Array]], gap: float) -> None:
    """Moves the pieces into columns beside one another, each onto the shortest column."""
    sized = list(pieces)
    if len(sized) < 2:
        return
    widest = max(float(size[0]) for _, size in sized)
    area = sum(float((size[0] + gap) * (size[1] + gap)) for _, size in sized)
    columns = max(1, min(len(sized), round(math.sqrt(1.4 * area) / (widest + gap))))
    if len(sized) > 1 and columns == 1:
        _rows(centres, sized, gap, max(widest, math.sqrt(1.4 * area)))
        return
    heap = [(0.0, column) for column in range(columns)]
    for piece, size in sized:
        top, column = heappop(heap)
        centres[piece] += (column * (widest + gap) + (widest - size[0]) / 2, top)
        heappush(heap, (top + float(size[1]) + gap, column))


def _rows(centres: Array, pieces: list[tuple[list[int], Array]], gap: float, width: float) -> None:
    """Lines of pieces, like words on a page: for one wide piece and some small ones."""
    left = top = tallest = 0.0
    for piece, size in pieces:
        if left and left + float(size[0]) > width:
            left, top, tallest = 0.0, top + tallest + gap, 0.0
        centres[piece] += (left, top)
        left += float(size[0]) + gap
        tallest = max(tallest, float(size[1]))
