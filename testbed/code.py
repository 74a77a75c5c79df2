"""Loads code that a researcher names: `module:Name` or `path/to/file.py:Name`.

Takes the name, gives the object; runs the module. Errors are reported with their place in that code, not with a
traceback through the testbed.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from testbed.errors import did_you_mean

_Given = TypeVar("_Given")


class CodeProblem(Exception):
    """A researcher's code failed, or is not what it should be."""

    def __init__(self, message: str, file: str | None = None, line: int | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        """The name of the file, without its folder."""
        self.line = line
        self.hint = hint
        """What to do about it; empty if the kind of code says that."""

    def __str__(self) -> str:
        return f"{place_words(self.file, self.line)}{self.message}"


class OnlyHere(CodeProblem):
    """The code failed here, but may work with other files and packages, as in an image."""


VISIBLE = "TESTBED_VISIBLE"
"""Environment variable: additional folders that learners may read if they are isolated from this machine's files."""
FOLDERS = "TESTBED_CODE"
"""Environment variable: folders to search for code files that are not where the plan was made."""
_MEND = "mend the code there: this is its own error"
_HERE = Path(__file__).resolve().parent
_LIBRARIES = tuple(
    {Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def place_words(file: str | None, line: int | None) -> str:
    """The beginning of a message about a place in a file: `file:line: `, as far as known."""
    if file is None:
        return ""
    return f"{file}: " if line is None else f"{file}:{line}: "


def is_code(name: str) -> bool:
    """Whether a name refers to own code, not to a built-in."""
    return ":" in name


def split(name: str) -> tuple[str, str]:
    """The module or file, and the name in it."""
    where, _, what = name.rpartition(":")
    return where, what


def file_of(name: str) -> Path | None:
    """The file that the name is in; None for a module."""
    where, _ = split(name)
    return Path(where) if where.endswith(".py") else None


def load_object(name: str) -> object:
    """The object of that name; raises CodeProblem if there is none."""
    where, what = split(name)
    if not where or not what.isidentifier():
        raise CodeProblem(f"`{name}` does not name code: write module:Name or path/to/file.py:Name")
    path = file_of(name)
    if path is not None:
        path = _where_it_is(path)
        if not path.is_file():
            raise OnlyHere(f"there is no file {path}")
    module = _load(where if path is None else str(path.resolve()))
    try:
        return getattr(module, what)
    except AttributeError:
        known = [each for each in vars(module) if not each.startswith("_")]
        hint = did_you_mean(what, known)
        raise CodeProblem(f"there is no `{what}` in {where}" + (f"; {hint}" if hint else "")) from None


def _where_it_is(path: Path) -> Path:
    """The file; if it does not exist, the one of the same name in a folder of `TESTBED_CODE`, as in an image."""
    if path.is_file():
        return path
    folders = [Path(each) for each in os.environ.get(FOLDERS, "").split(os.pathsep) if each]
    return next((folder / path.name for folder in folders if (folder / path.name).is_file()), path)


def call(name: str, function: Callable[..., _Given], *arguments: object, **options: object) -> _Given:
    """Calls code of that name; its exceptions become a CodeProblem with its place."""
    try:
        return function(*arguments, **options)
    except CodeProblem:
        raise
    except (Exception, SystemExit) as problem:
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
        if problem.name and f"{where}.".startswith(f"{problem.name}."):
            hint = "it has to be installed or on PYTHONPATH; a file is named as path/to/file.py:Name"
            raise OnlyHere(f"there is no module `{problem.name}`: {hint}") from None
        raise _problem(where, problem) from problem
    except (Exception, SystemExit) as problem:
        raise _problem(where, problem) from problem


def _load_file(path: Path) -> ModuleType:
    # The module's own name: two files of one name in different folders are two modules.
    name = f"testbed_user_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # noqa: S101 - the name ends in .py
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def problem_in(name: str, problem: BaseException) -> CodeProblem:
    """An exception as CodeProblem, with its innermost place in a researcher's file."""
    return _problem(split(name)[0] if is_code(name) else name, problem)


def _problem(where: str, problem: BaseException) -> CodeProblem:
    if isinstance(problem, SyntaxError):
        return CodeProblem(f"{problem.msg} (SyntaxError)", Path(problem.filename or where).name, problem.lineno, _MEND)
    own = _path_of(where)
    frames = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(problem.__traceback__)]
    theirs = [(path, line) for path, line in frames if _is_same(path, own) or _is_theirs(path)]
    message = f"{' '.join(str(problem).split()) or 'no further words'} ({type(problem).__name__})"
    if theirs:
        path, line = theirs[-1]
        return OnlyHere(message, path.name, line, _MEND)
    return OnlyHere(message, own.name if own else None, hint=_MEND)


def _path_of(where: str) -> Path | None:
    """The file of a module that is loaded or being loaded."""
    if where.endswith(".py"):
        return Path(where).resolve()
    file = getattr(sys.modules.get(where), "__file__", None)
    return Path(file).resolve() if file else None


def _is_same(path: Path, own: Path | None) -> bool:
    return own is not None and path.resolve() == own


def _is_theirs(path: Path) -> bool:
    """Whether a file belongs neither to testbed nor to a library."""
    if not path.is_file():  # such as <frozen importlib._bootstrap>
        return False
    whole = path.resolve()
    return not any(whole.is_relative_to(folder) for folder in (_HERE, *_LIBRARIES))
