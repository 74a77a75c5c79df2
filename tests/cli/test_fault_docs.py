"""`docs/faults.md` tells the truth: its commands parse, and its limits are those of the code."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from testbed.cli.fault import command as fault
from testbed.cli.link import command as link
from testbed.control import stall

TEXT = (Path(__file__).parents[2] / "docs" / "faults.md").read_text()
LINES = re.findall(r"^testbed (fault|link) (.*)$", TEXT, re.MULTILINE)


@pytest.mark.parametrize(("verb", "words"), LINES)
def test_its_commands_are_understood(verb: str, words: str) -> None:
    name, *rest = shlex.split(words)
    group = fault if verb == "fault" else link
    found = group.get_command(click.Context(group), name)
    assert found is not None
    found.make_context(name, rest)


def test_every_action_and_every_limit_is_told() -> None:
    assert len(LINES) >= 7
    for name in fault.commands:
        assert f"`{name}`" in TEXT or f"**{name}**" in TEXT, name
    assert f"- {stall.LEAST_S:g} s," in TEXT
    assert stall.ROUNDS == 10
