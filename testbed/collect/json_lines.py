"""Reads files of JSON lines, as far as they can be read.

Takes a path and a decoder, gives batches of records; reads that file. A line that is no record is counted and skipped.
Never more than a few megabytes of a file are in memory.
"""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from testbed.collect.problems import Problem, counted, named
from testbed.records import SCHEMA
from testbed.run_files import open_plain

LONGEST_LINE = 1 << 20
LARGEST_FILE = 4 << 30
_FAULTS = (msgspec.MsgspecError, ValueError, RecursionError)
_MOST_NUMBERS = 3
_START = b'{"type":"start"'

_Records = TypeVar("_Records")


class _Head(msgspec.Struct):
    """Fields that every record has, in later versions too."""

    type: str
    schema: int = 0


_HEAD = msgspec.json.Decoder(_Head)


@dataclass
class LineReader(Generic[_Records]):
    """Reads one file once; afterwards its fields tell which lines were no records."""

    path: Path
    within: Path
    """The run directory, below which no link is followed."""
    shown: str
    """The file's name in problems."""
    decoder: msgspec.json.Decoder[_Records]
    known: frozenset[str]
    """All types of records in the contract, also those that the decoder skips."""
    is_empty: bool = True
    spoilt: list[int] = field(default_factory=list)
    """Offsets of the first few lines that are no records."""
    spoilt_count: int = 0
    torn_end: int | None = None
    """Offset of the last line, if it is torn."""
    newer_schema: int | None = None
    unknown: Counter[str] = field(default_factory=Counter)
    refused: str = ""
    """Why the file was not read, or not to its end."""

    def batches(self) -> Iterator[list[_Records]]:
        """All records in the file's order, in batches."""
        try:
            status = self.path.lstat()
            if stat.S_ISLNK(status.st_mode):
                self.refused = "is a link, which is not followed"
            elif not stat.S_ISREG(status.st_mode):
                self.refused = "is not a file"
            elif status.st_size > LARGEST_FILE:
                self.refused = f"has more than {LARGEST_FILE >> 30} GiB"
            else:
                yield from self._read()
        except OSError as problem:
            self.refused = f"cannot be read: {problem.strerror or type(problem).__name__}"

    def problems(self) -> list[Problem]:
        """One problem for every kind of fault, however often it occurred."""
        found = []
        if self.refused:
            found.append(Problem(f"{self.shown} {self.refused}"))
        elif self.is_empty:
            found.append(Problem(f"{self.shown} is empty"))
        if self.newer_schema is not None:
            newer = f"has schema {self.newer_schema}, newer than {SCHEMA}, which this version of testbed reads"
            found.append(Problem(f"{self.shown} {newer}; skipped"))
        if self.spoilt_count:
            where = ", ".join(str(self._line_number(offset)) for offset in self.spoilt)
            more = self.spoilt_count - len(self.spoilt)
            lines = counted(self.spoilt_count, "line")
            found.append(
                Problem(f"{self.shown}: {lines} skipped, no record: {where}{f' and {more} more' if more else ''}")
            )
        if self.torn_end is not None:
            found.append(Problem(f"{self.shown}: last line torn, skipped: {self._line_number(self.torn_end)}"))
        if self.unknown:
            kinds = named(sorted(self.unknown))
            skipped = counted(self.unknown.total(), "record")
            found.append(Problem(f"{self.shown}: {skipped} of an unknown type skipped: {kinds}", incomplete=False))
        return found

    def _read(self) -> Iterator[list[_Records]]:
        buffer = bytearray(LONGEST_LINE)
        view = memoryview(buffer)
        filled, offset, overlong = 0, 0, None  # `offset`: position of the buffer in the file
        with open_plain(self.path, self.within) as file:
            while got := file.readinto(view[filled:]):
                self.is_empty = False
                filled += got
                begin, end = 0, buffer.rfind(b"\n", 0, filled) + 1
                if end == 0 and filled < len(buffer):
                    continue
                if end == 0:
                    overlong = offset if overlong is None else overlong
                    end = filled
                elif overlong is not None:
                    self._spoil(overlong)
                    overlong, begin = None, buffer.find(b"\n") + 1
                if overlong is None:
                    yield self._decoded(view[begin:end], offset + begin)
                view[: filled - end] = bytes(view[end:filled])
                filled, offset = filled - end, offset + end
        if overlong is not None:
            self._spoil(overlong)
        elif filled:
            # A whole record without its newline is a record: a cut object is never valid.
            yield self._one(bytes(view[:filled]), offset, last=True)

    def _decoded(self, text: memoryview, offset: int) -> list[_Records]:
        try:
            return self.decoder.decode_lines(text)
        except _FAULTS:
            records = []
            for line in bytes(text).split(b"\n")[:-1]:
                records += self._one(line, offset)
                offset += len(line) + 1
            return records

    def _one(self, line: bytes, offset: int, last: bool = False) -> list[_Records]:
        if not line.strip():
            return []
        try:
            return [self.decoder.decode(line)]
        except _FAULTS:
            return self._odd(line, offset, last)

    def _odd(self, line: bytes, offset: int, last: bool) -> list[_Records]:
        """Handles a line that could not be decoded: torn, spoilt, or from another version."""
        try:
            head = _HEAD.decode(line)
        except _FAULTS:
            return self._torn(line, offset, last)
        if head.type == "start" and head.schema > SCHEMA:
            self.newer_schema = head.schema
        elif head.type in self.known:
            self._spoil(offset)
        else:
            self.unknown[head.type[:40]] += 1
        return []

    def _torn(self, line: bytes, offset: int, last: bool) -> list[_Records]:
        """Handles a torn line; a node that came back may have continued in the middle of it."""
        start = line.rfind(_START)
        if start > 0:
            self._spoil(offset)
            return self._one(line[start:], offset, last)
        if last:
            self.torn_end = offset
        else:
            self._spoil(offset)
        return []

    def _spoil(self, offset: int) -> None:
        self.spoilt_count += 1
        if len(self.spoilt) < _MOST_NUMBERS:
            self.spoilt.append(offset)

    def _line_number(self, offset: int) -> int:
        """The line number at an offset; computed only for problems."""
        number = 1
        with suppress(OSError), open_plain(self.path, self.within) as file:
            while offset > 0 and (block := file.read(min(offset, LONGEST_LINE))):
                number += block.count(b"\n")
                offset -= len(block)
        return number
