"""Whether the researcher's code can be loaded with what is in the image: asked in one container, before there are more.

Takes names of code, gives an exit code; writes the first thing that is wrong as a JSON document to its output.
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
    """0 where all of them can be loaded."""
    output, sys.stdout = sys.stdout, sys.stderr  # what code prints while it is loaded is no answer
    try:
        for name in names:
            load_object(name)
    except CodeProblem as problem:
        output.write(msgspec.json.encode(CodeFault(problem.message, problem.file, problem.line)).decode())
        output.flush()
        return 1
    return 0
