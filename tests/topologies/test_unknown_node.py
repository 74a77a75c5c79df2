"""A name that no node has: which one it may be, and which there are."""

from __future__ import annotations

import pytest

from testbed.errors import ExitCode
from testbed.topologies.unknown_node import unknown_node

NODES = [("east.0", "east"), ("east.1", "east"), ("east.2", "east"), ("west.0", "west")]
MANY = [(f"site{number}.0", f"site{number}") for number in range(20)]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("east.4", "did you mean `east.2`? nodes here: east.0 to east.2, west.0"),
        ("wset", "did you mean `west`? nodes here: east.0 to east.2, west.0"),
        ("nobody", "nodes here: east.0 to east.2, west.0"),
        ("\x1b[31m", "nodes here: east.0 to east.2, west.0"),
    ],
)
def test_which_there_are(name: str, hint: str) -> None:
    told = unknown_node(name, NODES)
    assert told.message == f"there is no node `{name.replace(chr(27), chr(0xFFFD))}`"
    assert told.hint == hint
    assert told.exit_code == ExitCode.USAGE


def test_of_many_the_first_few() -> None:
    told = unknown_node("nobody", MANY, before="--from: ")
    assert told.message == "--from: there is no node `nobody`"
    assert told.hint.startswith("nodes here: site0.0, site1.0, ")
    assert told.hint.endswith("site7.0 and 12 more services")


def test_where_a_bridge_would_do_they_are_told_too() -> None:
    told = unknown_node("r-eats", NODES, {"r-west", "r-east"})
    assert told.message == "there is no node and no bridge `r-eats`"
    assert told.hint == "did you mean `r-east`? nodes here: east.0 to east.2, west.0; bridges: r-east, r-west"
    assert unknown_node("x", NODES, ()).hint == "nodes here: east.0 to east.2, west.0"
    assert unknown_node("x", []).hint == "nodes here: none"
