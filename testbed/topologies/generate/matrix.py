"""Square tables of values between regions: round-trip times, rates, losses.

Takes a CSV file, gives a `Matrix`, touches that file. The first row and the first column name the regions. The cell
of row a and column b is from a to b; where only one of the two directions is filled in, it counts for both. The
diagonal is ignored: a region's link to itself is its nodes' access links. In findings the "column" of a cell is its
number in the row.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from testbed.errors import Finding, InvalidInput, UsageProblem, Where, did_you_mean, error
from testbed.topologies.generate.sites import LEAST_LATENCY_MS, counted
from testbed.topologies.source import read_at_most
from testbed.units import UnitError, parse_latency_ms, parse_loss, parse_rate_bps, shown

MATRICES = Path(__file__).parent.parent / "matrices"
"""Folder of the bundled matrices."""

MOST_REGIONS = 1000
MOST_BYTES = 16_000_000
_MOST_FINDINGS = 50
_BARE_NUMBER = re.compile(r"[0-9.]+")


@dataclass(frozen=True, slots=True)
class Matrix:
    """A value for every ordered pair of regions; None where it is missing, and on the diagonal."""

    names: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]


def read_latencies(path: Path) -> Matrix:
    """Reads cells such as `72.7` (milliseconds) or `0.2s`."""
    return _read(path, lambda text: parse_latency_ms(_with_unit(text, "ms")))


def read_rates(path: Path) -> Matrix:
    """Reads cells such as `26` (Mbps) or `1.5Gbps`."""
    return _read(path, lambda text: parse_rate_bps(_with_unit(text, "Mbps")))


def read_losses(path: Path) -> Matrix:
    """Reads cells such as `0.01%` or `0.0001`."""
    return _read(path, parse_loss)


def arranged(matrix: Matrix, names: Sequence[str], what: str) -> Matrix:
    """The matrix with its regions in the order of `names`, all of which it must have."""
    if unknown := [name for name in names if name not in matrix.names]:
        raise UsageProblem(
            f"the {what} say nothing of the region {shown(unknown[0])}", did_you_mean(unknown[0], matrix.names)
        )
    places = [matrix.names.index(name) for name in names]
    return Matrix(tuple(names), tuple(tuple(matrix.values[a][b] for b in places) for a in places))


def one_way(matrix: Matrix, *, round_trip: bool) -> Matrix:
    """One-way latencies, at least that of switching; half of each value for round-trip times."""
    share = 0.5 if round_trip else 1.0
    return Matrix(
        matrix.names,
        tuple(
            tuple(None if value is None else max(LEAST_LATENCY_MS, round(value * share, 6)) for value in row)
            for row in matrix.values
        ),
    )


def _with_unit(text: str, unit: str) -> str:
    return text + unit if _BARE_NUMBER.fullmatch(text) else text


def _read(path: Path, parse: Callable[[str], float]) -> Matrix:
    reader = _Reader(str(path), parse)
    matrix = reader.matrix(_rows(path))
    if reader.findings:
        raise InvalidInput(str(path), reader.findings)
    return matrix


def _rows(path: Path) -> list[list[str]]:
    try:
        data = read_at_most(path, MOST_BYTES)
        if data is None:
            raise InvalidInput(str(path), [error("too-large", f"the most is {MOST_BYTES} bytes")])
        text = data.decode("utf-8-sig")
        return [[cell.strip() for cell in row] for row in csv.reader(StringIO(text, newline=""), strict=True)]
    except OSError as problem:
        raise UsageProblem(f"cannot read {path}: {(problem.strerror or 'it failed').lower()}") from problem
    except UnicodeDecodeError as problem:
        finding = error("encoding", "the file is not UTF-8 text", "save it as CSV in UTF-8")
        raise InvalidInput(str(path), [finding]) from problem
    except csv.Error as problem:
        raise InvalidInput(str(path), [error("csv-syntax", f"this is not CSV: {problem}")]) from problem


class _Reader:
    """Reads a table and collects all its errors."""

    def __init__(self, file: str, parse: Callable[[str], float]) -> None:
        self.findings: list[Finding] = []
        self._file = file
        self._parse = parse

    def matrix(self, rows: list[list[str]]) -> Matrix:
        filled = [(line, row) for line, row in enumerate(rows, start=1) if any(row)]
        if not filled:
            raise InvalidInput(self._file, [error("matrix-empty", "the file is empty", _SHAPE)])
        names = tuple(filled[0][1][1:])
        self._check_names(names, filled[0][0])
        if len(filled) - 1 != len(names):
            message = f"{counted(len(names), 'column')} but {counted(len(filled) - 1, 'row')} of regions"
            self._say("matrix-shape", message, _SHAPE, Where(filled[-1][0], 1))
        if self.findings:
            raise InvalidInput(self._file, self.findings)
        values = [self._row(row, names, place, line) for place, (line, row) in enumerate(filled[1:])]
        return Matrix(
            names,
            tuple(
                tuple(values[a][b] if values[a][b] is not None else values[b][a] for b in range(len(names)))
                for a in range(len(names))
            ),
        )

    def _check_names(self, names: tuple[str, ...], line: int) -> None:
        if not 1 <= len(names) <= MOST_REGIONS:
            self._say(
                "matrix-shape", f"{len(names)} regions", f"between 1 and {MOST_REGIONS} can be read", Where(line, 1)
            )
            return
        seen: set[str] = set()
        for place, name in enumerate(names, start=2):
            if not name:
                self._say("matrix-names", f"column {place} has no name", _SHAPE, Where(line, place))
            elif name in seen:
                self._say("matrix-names", f"two regions are called {shown(name)}", "name each once", Where(line, place))
            seen.add(name)

    def _row(self, row: list[str], names: tuple[str, ...], place: int, line: int) -> list[float | None]:
        if row[0] != names[place]:
            message = f"row {place + 1} is called {shown(row[0])}, column {place + 1} {shown(names[place])}"
            hint = "rows and columns name the same regions in the same order"
            self._say("matrix-names", message, hint, Where(line, 1))
        if any(row[len(names) + 1 :]):
            self._say(
                "matrix-shape",
                f"{counted(len(row) - 1, 'cell')} for {counted(len(names), 'region')}",
                _SHAPE,
                Where(line, len(names) + 2),
            )
        cells = (row[1:] + [""] * len(names))[: len(names)]
        return [
            None if column == place or not cell else self._cell(cell, Where(line, column + 2))
            for column, cell in enumerate(cells)
        ]

    def _cell(self, text: str, where: Where) -> float | None:
        try:
            return self._parse(text)
        except UnitError as problem:
            self._say("bad-value", problem.message, problem.hint, where)
            return None

    def _say(self, code: str, message: str, hint: str, where: Where) -> None:
        if len(self.findings) < _MOST_FINDINGS:
            self.findings.append(error(code, message, hint, where))


_SHAPE = "the first row and the first column name the regions; the cell of row a and column b is from a to b"
