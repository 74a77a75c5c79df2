"""Code that a researcher names: `module:Name` or `path/to/file.py:Name`.

Takes the name, gives the object; runs the module. Whatever goes wrong in it is told with the place in that code, not
with a trace through ours.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType

from testbed.errors import did_you_mean


class CodeProblem(Exception):
    """Code that is not ours failed, or is not what it should be."""

    def __init__(self, message: str, file: str | None = None, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        """The name of the file, without its folder."""
        self.line = line

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.file else ""
        return f"{place}{self.message}"


def is_code(name: str) -> bool:
    """Whether a name is of code rather than of something built in."""
    return ":" in name


def split(name: str) -> tuple[str, str]:
    """Module or file, and the name in it."""
    where, _, what = name.rpartition(":")
    return where, what


def file_of(name: str) -> Path | None:
    """The file that the name is in; None for a module."""
    where, _ = split(name)
    return Path(where) if where.endswith(".py") else None


def load_object(name: str) -> object:
    """The object of that name; raises CodeProblem when there is none."""
    where, what = split(name)
    if not where or not what.isidentifier():
        raise CodeProblem(f"`{name}` does not name code: write module:Name or path/to/file.py:Name")
    module = _load(where)
    try:
        return getattr(module, what)
    except AttributeError:
        known = [each for each in vars(module) if not each.startswith("_")]
        hint = did_you_mean(what, known)
        raise CodeProblem(f"there is no `{what}` in {where}" + (f"; {hint}" if hint else "")) from None


def call(name: str, function: Callable[..., object], *arguments: object, **options: object) -> object:
    """Call code of that name; what it raises becomes a CodeProblem at its own place."""
    try:
        return function(*arguments, **options)
    except CodeProblem:
        raise
    except Exception as problem:
        raise problem_in(name, problem) from problem


@cache
def _load(where: str) -> ModuleType:
    try:
        if where.endswith(".py"):
            return _load_file(Path(where))
        return importlib.import_module(where)
    except CodeProblem:
        raise
    except ModuleNotFoundError as problem:
        if problem.name == where:
            raise CodeProblem(f"there is no module `{where}`") from None
        raise _problem(where, problem) from problem
    except Exception as problem:
        raise _problem(where, problem) from problem


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise CodeProblem(f"there is no file {path}")
    # The module's own name: two files of one name in different folders are two modules.
    name = f"testbed_user_{path.stem}_{abs(hash(str(path.resolve()))):x}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # noqa: S101 - the name ends in .py
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def problem_in(name: str, problem: BaseException) -> CodeProblem:
    """What some code raised, with the innermost place that is in its own file or module."""
    return _problem(split(name)[0] if is_code(name) else name, problem)


def _problem(where: str, problem: BaseException) -> CodeProblem:
    if isinstance(problem, SyntaxError):
        return CodeProblem(f"{problem.msg} (SyntaxError)", Path(problem.filename or where).name, problem.lineno)
    own = Path(where).name if where.endswith(".py") else where.rpartition(".")[2] + ".py"
    frames = traceback.extract_tb(problem.__traceback__)
    inside = [frame for frame in frames if Path(frame.filename).name == own] or frames[-1:]
    text = str(problem) or "no further words"
    message = f"{text} ({type(problem).__name__})"
    if not inside:
        return CodeProblem(message)
    return CodeProblem(message, Path(inside[-1].filename).name, inside[-1].lineno)
