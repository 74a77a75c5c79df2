"""A researcher's code that is wrong: the run ends with the node, the file and the line, in words and journals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from testbed.cli.main import main

TOPOLOGY = """
services:
  a: {replicas: 4}
bridges: [r]
links: [{from: a, to: r, latency: 1ms, rate: 10Mbps}]
"""
ALGORITHM = """from testbed.node.algorithm import Algorithm


class Mine(Algorithm):
    async def run(self, node):
        async for round in node.rounds():
            await node.train()
            {line}
"""
MODEL = """from torch import nn


class Mine(nn.Module):
    def __init__(self, data):
        super().__init__()
        {made}
        self.layer = nn.Linear(64, 10)
        self.count = 0

    def forward(self, x):
        self.count += 1
        {line}
        return self.layer(x.reshape(len(x), -1))
"""


@pytest.fixture(autouse=True)
def _topology(in_a_folder: Path) -> None:
    (in_a_folder / "t.yaml").write_text(TOPOLOGY)


def deploy(*arguments: str) -> Result:
    fixed = ("--rounds", "5", "--workers", "0", "--run-id", "run", "--set", "evaluation={every: 1, samples: 20}")
    data = () if "--data" in arguments else ("--data", "digits")
    return CliRunner().invoke(main, ["deploy", "t.yaml", *data, *fixed, *arguments])


def ends() -> dict[str, dict[str, object]]:
    """The last record of every node."""
    files = Path("results/run/nodes").glob("*/journal.jsonl")
    return {file.parent.name: json.loads(file.read_text().splitlines()[-1]) for file in files}


def check_failed(result: Result, file: str | None, line: int | None, words: str, nodes: int) -> None:
    """Told on stderr and in the journals; every node has an end, and control's log says that it is over."""
    assert result.exit_code == 6, result.output
    assert "Traceback" not in result.output
    place = f"{file}:{line}: " if line else f"{file}: " if file else ""
    assert f"failed: {place}" in result.stderr
    assert words in result.stderr
    last = ends()
    failed = {name: end for name, end in last.items() if end["reason"] == "failed"}
    assert len(last) == 4
    assert len(failed) == nodes
    assert {end["reason"] for name, end in last.items() if name not in failed} <= {"stopped", "finished"}
    for end in failed.values():
        failure = end["failure"]
        assert isinstance(failure, dict)
        assert (failure["file"], failure["line"]) == (file, line)
        assert words in failure["message"]
    over = json.loads(Path("results/run/events.jsonl").read_text().splitlines()[-1])
    assert (over["type"], over["reason"], over["failed"]) == ("over", "failed", nodes)
    assert CliRunner().invoke(main, ["collect", "results/run"]).exit_code == 8


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("class Mine(:\n    pass\n", 1, "invalid syntax (SyntaxError)"),
        ("import numpyy\n", 1, "No module named 'numpyy'"),
        ("import sys\nsys.exit(3)\n", 2, "SystemExit"),
        ("class Other: pass\n", None, "there is no `Mine`"),
        ("\nclass Mine: pass\n", 2, "is not a class derived from Algorithm"),
        ("Mine = 3\n", None, "is not a class derived from Algorithm"),
        ("from testbed.node.algorithm import Algorithm\nclass Mine(Algorithm): pass\n", 2, "has no `async def run"),
        (ALGORITHM.replace("async def", "def").replace("async for", "for").replace("await ", ""), 4, "must be `async"),
        (ALGORITHM.replace("node):", "node, more):"), 4, "must take one argument"),
        (ALGORITHM.replace("async def run", "def __init__(self, needed): pass\n    async def run"), 4, "'needed'"),
        (ALGORITHM.replace("async def run", "def __init__(self): 1 / 0\n    async def run"), 5, "division by zero"),
        (ALGORITHM.format(line="[][round]"), 8, "list index out of range (IndexError)"),
        (ALGORITHM.format(line="import asyncio; await asyncio.sleep(1)"), 8, "use node.sleep"),
        (ALGORITHM.format(line="raise SystemExit(3)"), 8, "SystemExit"),
        (ALGORITHM.format(line="import asyncio; raise asyncio.CancelledError"), 8, "CancelledError"),
    ],
)
def test_an_algorithm_that_no_node_can_run(text: str, line: int | None, words: str) -> None:
    Path("mine.py").write_text(text.replace("{line}", "pass"))
    file = "mine.py" if line or "derived" in words else None
    check_failed(deploy("--algorithm", "mine.py:Mine"), file, line, words, nodes=4)


def test_an_exception_on_one_node_in_a_later_round() -> None:
    Path("mine.py").write_text(ALGORITHM.format(line="if round == 3 and node.rank == 2: {}['x']"))
    result = deploy("--algorithm", "mine.py:Mine")
    check_failed(result, "mine.py", 8, "'x' (KeyError)", nodes=1)
    assert "Error: node a.2 failed: mine.py:8: " in result.stderr


@pytest.mark.parametrize(
    ("made", "line", "place", "words"),
    [
        ("1 / 0", "pass", 7, "division by zero"),
        ("pass", "1 / 0", 13, "division by zero"),
        ("pass", "assert self.training", 13, "AssertionError"),
        ("pass", "return x", None, ""),
    ],
    ids=["made", "forward", "evaluation", "shape"],
)
def test_a_model_that_cannot_work_fails_the_run_before_any_node_lives(
    made: str, line: str, place: int | None, words: str
) -> None:
    Path("model.py").write_text(MODEL.format(made=made, line=line))
    result = deploy("--model", "model.py:Mine")
    check_failed(result, "model.py", place, words, nodes=1)
    assert "Error: node a.0 failed: model.py" in result.stderr


@pytest.mark.parametrize("when", ["self.count > 30", "self.count > 3 and not self.training"])
def test_a_model_that_fails_later(when: str) -> None:
    Path("model.py").write_text(MODEL.format(made="pass", line=f"if {when}: 1 / 0"))
    result = deploy("--model", "model.py:Mine")
    failed = sum(end["reason"] == "failed" for end in ends().values())
    assert failed >= 1
    check_failed(result, "model.py", 13, "division by zero", nodes=failed)


def test_a_way_of_sharing_is_found_in_its_own_file() -> None:
    Path("share.py").write_text(
        "from testbed.node.sharing.base import Sharing\n\n\nclass Mine(Sharing):\n"
        "    def encode(self, model, round):\n        raise ValueError('no sharing today')\n"
    )
    check_failed(deploy("--sharing", "share.py:Mine"), "share.py", 6, "no sharing today (ValueError)", nodes=4)


@pytest.mark.parametrize(
    ("line", "place", "words"),
    [("raise ValueError('no graph')", 3, "no graph (ValueError)"), ("return [(0, 0)]", None, "is no pair of two")],
)
def test_an_overlay_that_fails_later(line: str, place: int | None, words: str) -> None:
    Path("over.py").write_text(
        f"def mine(count, degree, round, random):\n    if round == 2:\n        {line}\n"
        "    return [(at, (at + 1) % count) for at in range(count)]\n"
    )
    result = deploy("--overlay", "over.py:mine", "--dynamic")
    check_failed(result, "over.py" if place else None, place, words, nodes=4)


def test_code_that_is_the_experiment_s_mistake_ends_before_there_is_a_run() -> None:
    Path("code.py").write_text("def mine(*rest, **more):\n    raise ValueError('boom')\n")
    for arguments in (("--overlay", "code.py:mine"), ("--data", "code.py:mine", "--model", "mlp")):
        result = deploy(*arguments)
        assert result.exit_code == 3
        assert "code.py:2: boom (ValueError)" in result.stderr
        assert not Path("results").exists()


def test_training_that_leaves_the_numbers() -> None:
    check_failed(deploy("--lr", "1e30"), None, None, "the loss is nan at local step 1", nodes=4)


def test_a_dry_run_says_that_the_code_is_wrong() -> None:
    Path("mine.py").write_text("import numpyy\n")
    for option in ("--algorithm", "--sharing", "--model"):
        result = deploy(option, "mine.py:Mine", "--dry-run")
        assert result.exit_code == 0
        assert "warning: the run would fail at once: mine.py:1: No module named 'numpyy'" in result.stderr
