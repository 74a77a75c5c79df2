"""Every room imports only what its row of the table in ARCHITECTURE.md allows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import testbed

PACKAGE = Path(testbed.__file__).parent
LEAVES = {
    "code",
    "cores",
    "doors",
    "errors",
    "first_words",
    "journal",
    "limits",
    "linux",
    "memory",
    "parent",
    "protocol",
    "records",
    "run_files",
    "rundir",
    "seeds",
    "socket_paths",
    "units",
}
PURE = LEAVES | {"topologies", "network"}
MAY_IMPORT = {
    "code": {"errors"},
    "cores": set[str](),
    "doors": {"socket_paths"},
    "errors": set[str](),
    "first_words": set[str](),
    "journal": {"errors", "linux", "records"},
    "limits": {"memory"},
    "linux": {"errors"},
    "memory": set[str](),
    "parent": set[str](),
    "protocol": {"first_words"},
    "records": set[str](),
    "run_files": {"linux"},
    "rundir": {"errors"},
    "seeds": set[str](),
    "socket_paths": set[str](),
    "units": set[str](),
    "catalogue": set[str](),
    "topologies": LEAVES,
    "network": LEAVES | {"topologies"},
    "targets": PURE,
    "experiment": PURE | {"catalogue"},
    "plan": PURE | {"catalogue", "experiment"},
    "manifests": PURE | {"catalogue", "targets", "experiment", "plan"},
    "node": LEAVES | {"catalogue", "experiment", "plan"},
    "engines": PURE | {"experiment", "plan"},
    "isolation": LEAVES | {"engines"},
    "control": PURE | {"experiment", "plan"},
    "image": PURE | {"experiment", "plan", "node"},
    "runtimes": PURE | {"targets", "experiment", "plan", "node", "engines", "isolation", "control", "image", "collect"},
    "verify": PURE | {"experiment", "plan", "node", "engines", "control", "runtimes"},
    "collect": LEAVES | {"experiment", "plan"},
    "cli": PURE
    | {
        "catalogue",
        "targets",
        "experiment",
        "plan",
        "manifests",
        "node",
        "engines",
        "isolation",
        "control",
        "image",
        "runtimes",
        "verify",
        "collect",
    },
    "__init__": set[str](),
    "__main__": {"cli"},
}
_SEAM = {"runtime", "needs", "enter"}
"""What every runtime has, and what runs on this machine and in containers have in common."""
RUNTIMES_MAY_IMPORT = {
    "tracking": set[str](),
    "sim": {"runtime", "tracking", "averaging", "failed_start"},
    "processes": _SEAM | {"tracking", "averaging", "failed_start"},
    "containers": {"tracking", "processes"},
    "docker": _SEAM | {"tracking", "containers"},
}
"""Of each folder in `runtimes`: which others there, and which modules beside it."""
ONLY_IN_CLI = {"click", "rich"}
NEVER = {"pickle", "shelve", "marshal", "multiprocessing", "concurrent"}
THREADS = "concurrent.futures.thread"
"""Which share memory: only what goes to other processes is pickled."""
ONLY_FOR_DOCKER = {"docker", "requests"}
KNOW_DOCKER = (PACKAGE / "runtimes" / "docker", PACKAGE / "image")
TRAINS = {"node", "runtimes"}
"""The rooms that may import torch; the command line must start fast."""


def imports(path: Path) -> Iterator[str]:
    """The dotted names of all modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


MODULES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_what_it_may(path: Path) -> None:
    room = room_of(path)
    allowed = MAY_IMPORT[room] | {room}
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "testbed" and len(parts) > 1 and parts[1] != "__version__":
            assert parts[1] in allowed, f"{room} may not import {name}"
        assert parts[0] not in NEVER or name.startswith(THREADS), f"{name} has no business here"
        assert parts[0] != "torch" or room in TRAINS, f"{room} may not import {name}"
        assert parts[0] not in ONLY_FOR_DOCKER or any(map(path.is_relative_to, KNOW_DOCKER)), f"{name} in {path}"
        if room != "cli":
            assert parts[0] not in ONLY_IN_CLI, f"{room} may not import {name}"


@pytest.mark.parametrize("folder", RUNTIMES_MAY_IMPORT)
def test_a_runtime_imports_only_what_it_may(folder: str) -> None:
    """Virtual time, processes and Docker do not know each other; what they share lies below them."""
    runtimes = PACKAGE / "runtimes"
    for path in sorted((runtimes / folder).rglob("*.py")):
        for name in imports(path):
            parts = name.split(".")
            if parts[:2] == ["testbed", "runtimes"] and len(parts) > 2:
                assert parts[2] in RUNTIMES_MAY_IMPORT[folder] | {folder}, f"{path.name} may not import {name}"


def test_every_folder_of_a_runtime_has_its_rules() -> None:
    folders = {path.parent.name for path in (PACKAGE / "runtimes").glob("*/__init__.py")}
    assert folders == set(RUNTIMES_MAY_IMPORT)


def test_the_check_sees_a_forbidden_import(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def f():\n    from testbed.cli import main\n")
    assert "testbed.cli" in set(imports(bad))


def test_every_room_is_in_the_table_of_the_architecture() -> None:
    text = (PACKAGE.parent / "ARCHITECTURE.md").read_text()
    rooms = {room_of(path) for path in MODULES} - {"__init__", "__main__"}
    assert rooms <= set(MAY_IMPORT)
    for room in rooms:
        assert f"`{room}" in text, f"ARCHITECTURE.md does not tell of {room}"
