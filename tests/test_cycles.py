"""No part of the package imports, directly or through others, what imports it: lazy imports count."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import networkx as nx

import testbed

PACKAGE = Path(testbed.__file__).parent


def _modules() -> dict[str, Path]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = _modules()


def _parts_of_its_folder() -> set[str]:
    """Folders that have others in them: their modules are parts by themselves, as the leaves of the package are."""
    return {
        ".".join(folder.relative_to(PACKAGE.parent).parts)
        for folder in (PACKAGE, *PACKAGE.rglob("*"))
        if folder.is_dir() and any((each / "__init__.py").exists() for each in folder.iterdir())
    }


MANY_PARTS = _parts_of_its_folder()


def _part(module: str) -> str:
    folder = ".".join(MODULES[module].relative_to(PACKAGE.parent).parent.parts)
    return module if folder in MANY_PARTS else folder


def _imports(tree: ast.AST) -> Iterator[str]:
    """At run time, wherever in the file: what only a type checker reads is left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES else node.module
        else:
            yield from _imports(node)


def cycles(sources: dict[str, str]) -> list[list[str]]:
    graph: nx.DiGraph[str] = nx.DiGraph()
    for module, text in sources.items():
        for name in _imports(ast.parse(text)):
            if name in MODULES and name != "testbed" and _part(name) != _part(module):
                graph.add_edge(_part(module), _part(name))
    return [sorted(each) for each in nx.strongly_connected_components(graph) if len(each) > 1]


def test_no_part_imports_what_imports_it() -> None:
    assert cycles({module: path.read_text() for module, path in MODULES.items()}) == []


def test_the_check_sees_a_lazy_import() -> None:
    sources = {module: path.read_text() for module, path in MODULES.items()}
    sources["testbed.runtimes.sim.run"] += "\n\ndef f():\n    from testbed.runtimes.registry import RUNTIMES\n"
    (cycle,) = [each for each in cycles(sources) if "testbed.runtimes.registry" in each]
    assert "testbed.runtimes.sim" in cycle
