"""Reads and decodes a topology file of bounded size, and converts offsets to lines and columns.

Takes a path, gives text; touches the given file only.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from testbed.errors import Finding, UsageProblem, Where, error
from testbed.units import format_size, shown

MAX_FILE_BYTES = 32 * 2**20
_STRIDE = 4096


class Form(StrEnum):
    """The two ways to write a topology."""

    XML = "xml"
    YAML = "yaml"


_FORM_BY_SUFFIX = {".xml": Form.XML, ".yaml": Form.YAML, ".yml": Form.YAML}


def form_of(path: str | Path) -> Form | None:
    """The form that a file's ending stands for."""
    return _FORM_BY_SUFFIX.get(Path(path).suffix.lower())


class Rejected(Exception):
    """The text cannot be read further; the finding says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


@dataclass(frozen=True)
class Source:
    """A file's text. Offsets are counted in bytes of its UTF-8 form."""

    name: str
    text: str

    @cached_property
    def data(self) -> bytes:
        return self.text.encode()

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer(b"\n", self.data))]

    @cached_property
    def _strides(self) -> list[int]:
        """The byte offset of every 4096th character, which makes lookups fast even in a single long line."""
        pieces = (self.text[start : start + _STRIDE] for start in range(0, len(self.text), _STRIDE))
        return [0, *accumulate(len(piece.encode()) for piece in pieces)]

    def byte_offset(self, character: int) -> int:
        """The byte offset of a character, for a parser that counts characters."""
        if len(self.data) == len(self.text):
            return character
        stride = min(character // _STRIDE, len(self._strides) - 1)
        return self._strides[stride] + len(self.text[stride * _STRIDE : character].encode())

    def _characters_before(self, offset: int) -> int:
        if len(self.data) == len(self.text):
            return offset
        stride = bisect_right(self._strides, offset) - 1
        return stride * _STRIDE + len(self.data[self._strides[stride] : offset].decode(errors="replace"))

    def where(self, offset: int) -> Where:
        """Line and column, in characters, of a byte offset."""
        line = bisect_right(self._line_starts, offset)
        start = self._line_starts[line - 1]
        return Where(line, self._characters_before(offset) - self._characters_before(start) + 1)


def read_at_most(path: Path, size_bytes: int) -> bytes | None:
    """The whole file, or None when it is larger; never reads more, even from devices without a size."""
    with path.open("rb") as file:
        data = file.read(size_bytes + 1)
    return data if len(data) <= size_bytes else None


def read_bytes(path: Path) -> bytes:
    """The whole file, up to the limit; raises a problem that says why it cannot be read."""
    try:
        if not path.is_file():
            what = "is a directory" if path.is_dir() else "is not a file" if path.exists() else "does not exist"
            raise UsageProblem(f"{path}: {what}")
        data = read_at_most(path, MAX_FILE_BYTES)
    except OSError as problem:
        raise UsageProblem(f"{path}: {problem.strerror or problem}") from problem
    except ValueError as problem:  # a NUL in the name
        raise UsageProblem(f"{shown(str(path))} is not a file name") from problem
    if data is None:
        raise Rejected(
            error(
                "too-large",
                f"the file has more than {format_size(MAX_FILE_BYTES)}",
                "use `replicas` instead of writing every node out",
            )
        )
    return data


_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_XML_ENCODING = re.compile(rb"""\A\s*<\?xml[^>]{0,200}?\sencoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
_ALLOWED_ENCODINGS = {"utf-8", "ascii", "iso8859-1", "utf-16", "utf-16-le", "utf-16-be"}
_UTF8_HINT = "save the file as UTF-8"


def decode(data: bytes) -> str:
    """The file's text; UTF-8 unless a byte-order mark or an XML declaration says otherwise."""
    declared = _XML_ENCODING.match(data)
    bom = next(((mark, encoding) for mark, encoding in _BOMS if data.startswith(mark)), None)
    encoding = "utf-8"
    if bom is not None:
        encoding, data = bom[1], data[len(bom[0]) :]
    elif declared is not None:
        encoding = _known_encoding(declared[1].decode("ascii"))
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as problem:
        before = data[: problem.start].decode(encoding, errors="replace")
        line = before.count("\n") + 1
        where = Where(line, len(before) - (before.rfind("\n") + 1) + 1)
        if b"\0" in data[:4096]:
            raise Rejected(error("binary", "this is not a text file", "give a file in XML or YAML")) from problem
        raise Rejected(
            error("encoding", f"this byte is not {encoding}: 0x{data[problem.start]:02x}", _UTF8_HINT, where)
        ) from problem
    if "\0" in text:
        raise Rejected(error("binary", "this is not a text file", "give a file in XML or YAML"))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _known_encoding(declared: str) -> str:
    try:
        encoding = codecs.lookup(declared).name
    except LookupError:
        encoding = ""
    if encoding not in _ALLOWED_ENCODINGS:
        raise Rejected(error("encoding", f"unknown encoding {shown(declared)}", _UTF8_HINT))
    return encoding
