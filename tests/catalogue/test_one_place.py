"""What comes with the package is named in its table and in its own file, and nowhere else in the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import testbed
from testbed.catalogue.algorithms import ALGORITHMS
from testbed.catalogue.data_sets import DATA_SETS
from testbed.catalogue.models import MODELS
from testbed.catalogue.sharings import SHARINGS
from testbed.catalogue.tables import Entry

PACKAGE = Path(testbed.__file__).parent
TABLES: dict[str, Mapping[str, Entry]] = {
    "algorithm": ALGORITHMS,
    "sharing": SHARINGS,
    "model": MODELS,
    "data": DATA_SETS,
}
NAMES = {name: entry.code for table in TABLES.values() for name, entry in table.items()}
TABLE_ROOM = PACKAGE / "catalogue"
DATA_ITSELF = PACKAGE / "node" / "data" / "catalogue.py"
"""What data sets consist of and where they can be had: their own file."""
OTHER_MEANINGS = {
    "full": ("experiment/language.py", "node/algorithms/teleportation.py", "node/recipients.py", "plan/", "runtimes/"),
    "random": ("experiment/language.py", "node/choose.py", "plan/overlay.py", "runtimes/"),
}
"""Words that are a kind of overlay, an order, an argument or a device there."""
WORD = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """All text in a file but for docstrings: where, and what."""
    tree = ast.parse(path.read_text())
    told = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            told.add(id(node.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.lineno, node.value


def named_in(text: str) -> set[str]:
    """The names that a text is, or lists: two of them in one text are no coincidence."""
    if text in NAMES:
        return {text}
    found = {word for word in WORD.findall(text) if word in NAMES}
    return found if len(found) > 1 else set()


def strays(path: Path) -> Iterator[str]:
    inside = path.relative_to(PACKAGE).as_posix()
    module = f"testbed.{inside.removesuffix('.py').replace('/', '.')}"
    for line, text in literals(path):
        for name in named_in(text):
            if not NAMES[name].startswith(f"{module}:") and not inside.startswith(OTHER_MEANINGS.get(name, ())):
                yield f"{inside}:{line}: {text!r} names {name}"


ELSEWHERE = [path for path in sorted(PACKAGE.rglob("*.py")) if TABLE_ROOM not in path.parents and path != DATA_ITSELF]


def test_no_other_place_names_what_comes_with_the_package() -> None:
    assert not [each for path in ELSEWHERE for each in strays(path)]


@pytest.mark.parametrize("text", ["topk", "dpsgd, epidemic, fedavg, or code"])
def test_a_name_elsewhere_is_found(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.catalogue.test_one_place.PACKAGE", tmp_path)
    (tmp_path / "bad.py").write_text(f'"""topk and dpsgd are fine here."""\nCOSTS = {{"{text}": 8}}\n')
    assert list(strays(tmp_path / "bad.py"))
