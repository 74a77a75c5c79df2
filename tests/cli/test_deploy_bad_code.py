"""A researcher's code that is wrong: the run ends with the node, the file and the line, in words and journals."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from testbed.cli.main import main
from testbed.errors import InvalidInput
from testbed.experiment.language import Experiment
from testbed.experiment.origin import Origin
from testbed.runtimes.planning import _refuse_wrong_code
from testbed.runtimes.registry import named

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
INSTALL = f"{sys.executable} -m pip install"
MEND = "mend the code there: this is its own error"
CLASS = "write `class NAME(Algorithm)`"
DECLARE = "as the table in docs/writing-an-algorithm.md says"


@pytest.fixture(autouse=True)
def _topology(in_a_folder: Path) -> None:
    (in_a_folder / "t.yaml").write_text(TOPOLOGY)


def deploy(*arguments: str) -> Result:
    fixed = ("--rounds", "5", "--run-id", "run", "--set", "evaluation={every: 1, samples: 20}")
    workers = () if "local" in arguments or "docker" in arguments else ("--workers", "0")
    data = () if "--data" in arguments else ("--data", "digits")
    return CliRunner().invoke(main, ["deploy", "t.yaml", *data, *fixed, *workers, *arguments])


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


def check_refused(result: Result, place: str, words: str) -> None:
    """Told with its place and a way out, and there is no run: the same command can be given again."""
    assert result.exit_code == 3, result.output
    assert "Traceback" not in result.output
    assert place in result.stderr
    assert words in result.stderr
    assert "preparing" not in result.stderr, "before anything is fetched or measured"
    assert not Path("results").exists()


@pytest.mark.parametrize(
    ("text", "line", "words", "hint"),
    [
        ("class Mine(:\n    pass\n", 1, "invalid syntax (SyntaxError)", MEND),
        ("import numpyy\n", 1, "No module named 'numpyy'", INSTALL),
        ("import sys\nsys.exit(3)\n", 2, "SystemExit", MEND),
        ("class Other: pass\n", None, "there is no `Mine`", CLASS),
        ("\nclass Mine: pass\n", 2, "is not a class derived from Algorithm", CLASS),
        ("Mine = 3\n", None, "is not a class derived from Algorithm", CLASS),
        (
            "from testbed.node.algorithm import Algorithm\nclass Mine(Algorithm): pass\n",
            2,
            "has no `async def run",
            CLASS,
        ),
        (
            ALGORITHM.replace("async def", "def").replace("async for", "for").replace("await ", ""),
            4,
            "must be `async",
            CLASS,
        ),
        (ALGORITHM.replace("node):", "node, more):"), 4, "must take one argument", CLASS),
        (
            ALGORITHM.replace("async def run", "def __init__(self, needed): pass\n    async def run"),
            4,
            "'needed'",
            "the arguments of `__init__`",
        ),
        (
            ALGORITHM.replace("async def run", "def __init__(self): 1 / 0\n    async def run"),
            5,
            "division by zero",
            MEND,
        ),
        ("raise ValueError('no\\n  luck\\n')\n", 1, "no luck (ValueError)", MEND),
    ],
)
def test_an_algorithm_that_no_node_can_make(text: str, line: int | None, words: str, hint: str) -> None:
    Path("mine.py").write_text(text.replace("{line}", "pass"))
    result = deploy("--algorithm", "mine.py:Mine")
    place = f"mine.py:{line}: " if line else "mine.py"
    check_refused(result, f"--algorithm mine.py:Mine:1:13: error: algorithm.name: {place if line else ''}", words)
    assert place in result.stderr
    assert hint in result.stderr


@pytest.mark.parametrize(
    ("declared", "line", "words", "hint"),
    [
        ("import numpy; sends_to = numpy.array([1, 2])", 4, "`sends_to` must be a number", DECLARE),
        ("waits = 'always'", 4, "`waits` must be True, False or None, not 'always'", DECLARE),
        ("waits = property(lambda self: {}[3])", 5, "3 (KeyError)", MEND),
        ("needs_server = True", 4, "needs a server", "--set algorithm.server=NODE"),
    ],
)
def test_facts_that_no_plan_can_use(declared: str, line: int, words: str, hint: str) -> None:
    text = ALGORITHM.format(line="pass")
    Path("mine.py").write_text(text.replace("    async def run", f"    {declared}\n    async def run"))
    result = deploy("--algorithm", "mine.py:Mine")
    check_refused(result, f"algorithm.name: mine.py:{line}: ", words)
    assert hint in result.stderr
    dry = deploy("--algorithm", "mine.py:Mine", "--dry-run")
    assert dry.exit_code == 0
    assert f"warning: the run would fail at once: mine.py:{line}: " in dry.stderr
    if words == "needs a server":
        served = deploy("--algorithm", "mine.py:Mine", "--set", "algorithm.server=a.0", "--dry-run")
        assert "would fail" not in served.stderr


@pytest.mark.parametrize("runtime", ["sim", "local"])
@pytest.mark.parametrize(
    ("option", "base", "hint"),
    [
        ("--algorithm", "Algorithm", "docs/writing-an-algorithm.md"),
        ("--sharing", "Sharing", "docs/writing-an-algorithm.md"),
        ("--model", None, "docs/writing-a-model.md"),
        ("--data", None, "docs/data.md"),
        ("--overlay", None, ""),
    ],
)
def test_code_that_cannot_be_loaded_is_no_run(option: str, base: str | None, hint: str, runtime: str) -> None:
    """Nor what is there, but cannot be what it is named as; in any runtime, whatever this machine allows."""
    more = ("--model", "mlp") if option == "--data" else ()
    Path("mine.py").write_text("import math\nimport numpyy\n")
    check_refused(deploy(option, "mine.py:Mine", *more, "--runtime", runtime), "mine.py:2: ", "'numpyy'")
    Path("other.py").write_text("class Mine: pass\n" if base else "Mine = 3\n")
    words = f"is not a class derived from {base}" if base else "`other.py:Mine` is n"
    refused = deploy(option, "other.py:Mine", *more, "--runtime", runtime)
    check_refused(refused, f"{option} other.py:Mine:1:", words)
    assert hint in refused.stderr
    check_refused(deploy(option, "nowhere.at.all:Mine", *more, "--runtime", runtime), option, "no module `nowhere`")


def test_a_plan_whose_code_is_not_what_it_was_is_no_run() -> None:
    Path("mine.py").write_text(ALGORITHM.format(line="pass"))
    assert deploy("--algorithm", "mine.py:Mine", "--rounds", "1").exit_code == 0
    Path("results").rename("before")
    Path("elsewhere").mkdir()
    plan = Path("before/run/plan.json")
    plan.write_text(plan.read_text().replace("mine.py:Mine", "elsewhere/mine.py:Mine"))
    Path("elsewhere/mine.py").write_text("class Mine: pass\n")
    result = CliRunner().invoke(main, ["deploy", "--plan", str(plan), "--run-id", "again"])
    check_refused(result, "before/run/plan.json:1:1: error: algorithm.name: mine.py:1: ", "not a class derived from")


def test_a_plan_whose_overlay_is_not_what_it_was_is_no_run() -> None:
    """Nothing calls it for a plan that is there; its nodes would, in every round."""
    Path("over.py").write_text("mine = 3\n")
    experiment = Experiment.model_validate({"topology": "t", "overlay": {"kind": "over.py:mine", "dynamic": True}})
    with pytest.raises(InvalidInput) as refused:
        _refuse_wrong_code(experiment, named("sim"), Origin(), print)
    (finding,) = refused.value.findings
    assert "`over.py:mine` is neither a class nor a function" in str(finding)


def test_of_containers_only_the_image_can_tell_what_its_packages_are(tmp_path: Path) -> None:
    """But a class that is not there is not there either: the image has the same file."""
    said: list[str] = []

    def check(text: str) -> None:
        (tmp_path / f"{len(said)}.py").write_text(text)
        experiment = Experiment.model_validate({"topology": "t", "algorithm": f"{tmp_path}/{len(said)}.py:Mine"})
        _refuse_wrong_code(experiment, named("docker"), Origin(), said.append)

    check("import numpyy\n")
    assert said == [
        "warning: here the code fails, and only the image can tell whether it does there: "
        "0.py:1: No module named 'numpyy' (ModuleNotFoundError)"
    ]
    for text in ("class Other: pass\n", "class Mine: pass\n", "class Mine(:\n"):
        (tmp_path / "1.py").unlink(missing_ok=True)
        with pytest.raises(InvalidInput):
            check(text)
        said.append("")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (ALGORITHM.format(line="[][round]"), 8, "list index out of range (IndexError)"),
        (ALGORITHM.format(line="import asyncio; await asyncio.sleep(1)"), 8, "use node.sleep"),
        (ALGORITHM.format(line="raise SystemExit(3)"), 8, "SystemExit"),
        (ALGORITHM.format(line="import asyncio; raise asyncio.CancelledError"), 8, "CancelledError"),
    ],
)
def test_an_algorithm_that_no_node_can_run(text: str, line: int | None, words: str) -> None:
    Path("mine.py").write_text(text)
    check_failed(deploy("--algorithm", "mine.py:Mine"), "mine.py", line, words, nodes=4)


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
    ],
    ids=["made", "forward", "evaluation"],
)
def test_a_model_that_cannot_work_is_no_run(made: str, line: str, place: int, words: str) -> None:
    Path("model.py").write_text(MODEL.format(made=made, line=line))
    result = deploy("--model", "model.py:Mine")
    assert result.exit_code == 3
    assert f"--model model.py:Mine:1:9: error: model.name: model.py:{place}: " in result.stderr
    assert words in result.stderr
    assert not Path("results").exists()


def test_a_model_that_cannot_learn_fails_the_run_before_any_node_lives() -> None:
    Path("model.py").write_text(MODEL.format(made="pass", line="return x"))
    result = deploy("--model", "model.py:Mine")
    check_failed(result, "model.py", None, "", nodes=1)
    assert "Error: node a.0 failed: model.py" in result.stderr
    assert deploy("--run-id", "run").exit_code == 0, "nothing of it is in the way"
    assert Path("results/run/failed-1/events.jsonl").exists()


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
