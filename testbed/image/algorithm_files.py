"""Files of code that are to be put into the image: looked at before anything is built.

Takes paths, gives them by the name that they will have; reads them, runs nothing. A file that could not be loaded in a
container is found here, with its line.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from testbed.errors import InvalidInput, UsageProblem
from testbed.image.code import MAX_BYTES, problem_of

REQUIREMENTS = "requirements.txt"


def checked(paths: Iterable[Path]) -> dict[str, bytes]:
    """The bytes of each file by its base name; raises when one is not there or no Python."""
    found: dict[str, bytes] = {}
    where: dict[str, Path] = {}
    for path in paths:
        name = path.name
        if path.suffix != ".py":
            raise UsageProblem(f"--algorithm {path}: not a Python file", "give a file whose name ends in .py")
        data = read(path)
        if found.get(name, data) != data:
            raise UsageProblem(f"{where[name]} and {path} would have the same name in the image", "rename one of them")
        problem = problem_of(data)
        if problem is not None:
            raise InvalidInput(str(path), [problem])
        found[name], where[name] = data, path
    return found


def read(path: Path) -> bytes:
    """All of a file that a user named, which may not be large."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageProblem(f"{path} is larger than {MAX_BYTES // 2**20} MiB", "is it the right file?")
        return path.read_bytes()
    except OSError as problem:
        raise UsageProblem(f"{path}: {problem.strerror or problem}") from None
