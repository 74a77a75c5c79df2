"""What a researcher's own code says of itself, and what becomes of it in a plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from testbed.cli.main import main
from testbed.experiment.language import Experiment
from testbed.node.declared import declared, waits
from testbed.node.named_code import wrong_code
from testbed.plan.model import Declared

OWN = """\
import numpy as np

from testbed.node.algorithm import Algorithm
from testbed.node.sharing.base import Sharing


class Plain(Algorithm):
    async def run(self, node): ...


class Gossip(Plain):
    waits = False

    def __init__(self, pushes=1):
        self.sends_to = pushes


class All(Plain):
    waits = True
    sends_to = "neighbours"


class OddWaits(Plain):
    waits = "never"


class OddTo(Plain):
    sends_to = True


class ArrayTo(Plain):
    sends_to = np.array([1, 2])


class BrokenWaits(Plain):
    @property
    def waits(self):
        return {}["nothing"]


class Unshown:
    def __repr__(self):
        raise ValueError("no words")


class OddServer(Plain):
    needs_server = Unshown()


class Served(Plain):
    needs_server = True


class Half(Sharing):
    def message_bytes(self, parameters):
        return 2 * parameters


class OddBytes(Sharing):
    def message_bytes(self, parameters):
        return parameters / 2


class BadBytes(Sharing):
    def message_bytes(self, parameters):
        raise ValueError("on purpose")


class Silent(Sharing):
    pass
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    (tmp_path / "own.py").write_text(OWN)
    return str(tmp_path / "own.py")


def experiment(**sections: object) -> Experiment:
    return Experiment.model_validate({"topology": "t", "data": "digits", **sections})


def test_what_comes_with_the_package_says_nothing_itself() -> None:
    assert declared(experiment(), 10) is None
    assert waits(experiment()) is True
    assert waits(experiment(algorithm={"name": "parameter-server", "mode": "async"})) is False


def test_what_own_code_says_may_depend_on_its_options(own: str) -> None:
    def said(name: str, **options: object) -> Declared | None:
        return declared(experiment(algorithm={"name": f"{own}:{name}", "options": options}), 10)

    assert said("Plain") == Declared(waits=None, sends_to=None, message_bytes=None)
    assert said("Gossip") == Declared(waits=False, sends_to=1, message_bytes=None)
    assert said("Gossip", pushes=3) == Declared(waits=False, sends_to=3, message_bytes=None)
    assert said("All") == Declared(waits=True, sends_to="neighbours", message_bytes=None)
    assert waits(experiment(algorithm=f"{own}:Plain")) is None
    assert waits(experiment(algorithm=f"{own}:Gossip")) is False
    assert waits(experiment(algorithm=f"{own}:Missing")) is None
    found = declared(experiment(sharing=f"{own}:Half"), 10)
    assert found == Declared(waits=None, sends_to=None, message_bytes=20)
    assert declared(experiment(sharing=f"{own}:Silent"), 10) == Declared(waits=None, sends_to=None, message_bytes=None)


@pytest.mark.parametrize(
    ("section", "name", "line", "words"),
    [
        ("algorithm", "OddWaits", 23, "`waits` must be True, False or None, not 'never'"),
        ("algorithm", "OddTo", 27, "`sends_to` must be a number, 'neighbours' or None, not True"),
        ("algorithm", "ArrayTo", 31, "`sends_to` must be a number, 'neighbours' or None, not array([1, 2])"),
        ("algorithm", "BrokenWaits", 38, "'nothing' (KeyError)"),
        ("algorithm", "OddServer", 43, "no words (ValueError)"),
        ("sharing", "OddBytes", 59, "`message_bytes` must give a number of bytes or None, not 0.5"),
        ("sharing", "BadBytes", 66, "on purpose (ValueError)"),
    ],
)
def test_what_is_no_such_thing_is_told_before_there_is_a_run(
    own: str, section: str, name: str, line: int, words: str
) -> None:
    found = wrong_code(experiment(**{section: f"{own}:{name}"}))
    assert found is not None
    assert found.key == (section, "name")
    assert (found.problem.file, found.problem.line, found.problem.message) == ("own.py", line, words)
    assert wrong_code(experiment(algorithm=f"{own}:Gossip", sharing=f"{own}:Half")) is None


def test_an_algorithm_that_needs_a_server_has_one(own: str) -> None:
    found = wrong_code(experiment(algorithm=f"{own}:Served"))
    assert found is not None
    assert (found.key, found.problem.file, found.problem.line) == (("algorithm", "name"), "own.py", 50)
    assert "Served` needs a server: say `algorithm: {server: NODE}`" in found.problem.message
    assert "--set algorithm.server=NODE" in found.problem.hint
    assert wrong_code(experiment(algorithm={"name": f"{own}:Served", "server": "a.0"})) is None


DRY_RUN = ("deploy", "lan4", "--data", "digits", "--runtime", "sim", "--dry-run")


def test_a_plan_says_what_its_figures_rest_on(own: str) -> None:
    def planned(*arguments: str) -> dict[str, Any]:
        done = CliRunner().invoke(main, [*DRY_RUN, "--format", "json", *arguments])
        assert done.exit_code == 0, done.output
        found: dict[str, Any] = json.loads(done.stdout)["estimate"]
        return found

    silent, gossip = planned("--algorithm", f"{own}:Plain"), planned("--algorithm", f"{own}:Gossip")
    assert silent["assumed"] == ["all send to all neighbours every round", "all wait for those that send to them"]
    assert gossip["assumed"] == []
    assert silent["round_bytes"] == 3 * gossip["round_bytes"], "four nodes, all neighbours of each other"
    assert planned("--sharing", f"{own}:Silent")["message_bytes"] is None
    done = CliRunner().invoke(main, [*DRY_RUN, "--sharing", f"{own}:Silent"])
    assert "whole models are sent: the experiment's own code does not say" in " ".join(done.stdout.split())
