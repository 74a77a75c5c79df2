"""Checks in one container, before the others start, whether the researcher's code can be loaded in the image.

Takes names of code, gives an exit code; writes the first fault as a JSON document to its output.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import msgspec

from testbed.code import CodeProblem, load_object


class CodeFault(msgspec.Struct, frozen=True):
    message: str
    file: str | None = None
    line: int | None = None


def check(names: Iterable[str]) -> int:
    """0 if all of them can be loaded."""
    output, sys.stdout = sys.stdout, sys.stderr  # output of the loaded code must not mix with the JSON document
    try:
        for name in names:
            load_object(name)
    except CodeProblem as problem:
        output.write(msgspec.json.encode(CodeFault(problem.message, problem.file, problem.line)).decode())
        output.flush()
        return 1
    return 0
