"""FILE and options of commands that run an experiment, and how a plan is printed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from testbed.cli.experiment_options import experiment_options, resolve
from testbed.cli.output import Format, format_option
from testbed.cli.plan_view import print_plan
from testbed.errors import InvalidInput, UsageProblem
from testbed.experiment.origin import Setting
from testbed.experiment.read import setting
from testbed.plan.make import make_plan
from testbed.runtimes.planning import Resolved


@click.command()
@experiment_options
@format_option
def plan_it(file: str | None, settings: tuple[Setting, ...], output_format: Format) -> None:
    """A command as `deploy --dry-run` is one."""
    resolved = resolve(file, settings)
    plan = make_plan(
        resolved.experiment,
        resolved.topology,
        run_id="r1",
        source=resolved.origin,
        parameters=83_754,
        samples=(3750,) * 15 + (3000,) if len(resolved.topology.nodes) == 16 else None,
    )
    print_plan(plan, output_format)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(plan_it, arguments)


def resolved(*arguments: str) -> Resolved:
    found: list[Resolved] = []

    @click.command()
    @experiment_options
    def catch(file: str | None, settings: tuple[Setting, ...]) -> None:
        found.append(resolve(file, settings))

    catch.main(list(arguments), standalone_mode=False)
    return found[0]


def test_a_topology_alone_is_an_experiment() -> None:
    found = resolved("topologies/wan16.xml")
    assert len(found.topology.nodes) == 16
    assert (found.experiment.topology, found.experiment.stop.rounds) == ("topologies/wan16.xml", 50)
    assert list(found.inputs) == ["topologies/wan16.xml"]


def test_every_option_is_a_key() -> None:
    experiment = resolved(
        *(
            "wan16",
            "--algorithm",
            "epidemic",
            "--overlay",
            "regular",
            "--degree",
            "4",
            "--dynamic",
            "--sharing",
            "topk",
        ),
        *("--data", "digits", "--model", "logistic", "--rounds", "7", "--time", "90s", "--lr", "0.2", "--batch", "4"),
        *("--steps", "3", "--seed", "9", "--set", "sharing.fraction=0.2", "--set", "missing.after=3s"),
    ).experiment
    assert (experiment.algorithm.name, experiment.overlay.degree, experiment.overlay.dynamic) == ("epidemic", 4, True)
    assert (experiment.sharing.name, experiment.sharing.options["fraction"]) == ("topk", 0.2)
    assert (experiment.data.name, experiment.model.name, experiment.seed) == ("digits", "logistic", 9)
    assert (experiment.stop.rounds, experiment.stop.time_s, experiment.missing.after_s) == (7, 90.0, 3.0)
    assert (experiment.training.lr, experiment.training.batch, experiment.training.steps) == (0.2, 4, 3)


def test_a_file_and_options_end_in_the_same_experiment(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("topology: wan16\noverlay: {kind: ring, dynamic: true}\ntraining: {lr: 0.1}\n")
    by_file = resolved(str(path))
    by_options = resolved("wan16", "--overlay", "ring", "--dynamic", "--lr", "0.1")
    assert by_file.experiment == by_options.experiment
    assert resolved(str(path), "--static", "--lr", "0.3").experiment.overlay.dynamic is False
    assert by_file.inputs[str(path)] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert by_file.inputs["wan16"] == by_options.inputs["wan16"]


def test_a_topology_beside_the_experiment_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "own.yaml").write_text("services: {a: {replicas: 3}}\nbridges: [s]\nlinks: []\n")
    (tmp_path / "in" / "x.yaml").write_text("topology: own.yaml\noverlay: {file: edges}\nalgorithm: my.py:A\n")
    (tmp_path / "in" / "edges").write_text("0 1\n1 2\n")
    (tmp_path / "in" / "my.py").write_text("")
    monkeypatch.chdir(tmp_path)
    found = resolved("in/x.yaml")
    assert len(found.topology.nodes) == 3
    assert set(found.inputs) == {"in/x.yaml", "own.yaml", "edges", "in/my.py"}


def test_a_topology_that_is_not_there_is_told_in_the_experiment(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("seed: 1\ntopology: topologies/wan17.xml\n")
    with pytest.raises(InvalidInput) as caught:
        resolve(str(path), [])
    (finding,) = caught.value.findings
    assert (finding.code, finding.where.line, finding.where.column) == ("no-file", 2, 11)
    assert finding.hint == "did you mean `topologies/wan16.xml`?"


def test_nothing_and_what_is_not_there() -> None:
    for file in (None, "topologies/wan17.xml", "none.yaml"):
        with pytest.raises(UsageProblem):
            resolve(file, [])


def test_a_wrong_option_is_named_as_it_was_given() -> None:
    for arguments, file in ((("--lr", "fast"), "--lr fast"), (("--overlay", "rng"), "--overlay rng")):
        with pytest.raises(InvalidInput) as caught:
            resolved("wan16", *arguments)
        assert caught.value.file == file
    with pytest.raises(InvalidInput) as caught:
        resolve("wan16", [setting("training.lrr=0.1")])
    assert caught.value.findings[0].hint == "did you mean `lr`?"


def test_the_plan_as_a_table() -> None:
    result = run("wan16")
    assert result.exit_code == 0, result.output
    for part in (
        "n-california       2   learner   198.18.0.2 to 198.18.0.3     5 ms",
        "regular, degree 5: 40 edges, diameter 3",
        "3000 to 3750, 3750 in the middle",
        "gn-lenet, 83 754 parameters",
        "26.8 MB in all, 1.68 MB sent by a node",
        "50 rounds",
    ):
        assert part in result.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--algorithm", "fedavg"), "all with n-virginia.0"),
        (("--dynamic", "--set", "overlay.peers=sampler"), "new every round, asked of n-virginia.0"),
        (("--algorithm", "epidemic"), "regular, degree 4, new every round, drawn from the seed"),
        (
            ("--algorithm", "epidemic", "--set", "algorithm.mode=local"),
            "4 of the others, drawn by each node every round",
        ),
        (("--set", "compute.factors={share: 0.5, factor: 3}"), "15 ms"),
        (("--time", "30s"), "30 s of emulated time"),
    ],
)
def test_what_else_a_plan_may_say(arguments: tuple[str, ...], told: str) -> None:
    result = run("wan16", *arguments)
    assert result.exit_code == 0, result.output
    assert told in result.stdout


def test_the_plan_as_json_and_csv() -> None:
    value = json.loads(run("wan16", "--format", "json").stdout)
    assert value["estimate"]["round_bytes"] == 16 * 5 * (4 * 83_754 + 60)
    assert value["overlay"] == {
        "kind": "regular", "degree": 5, "dynamic": False, "sampler": None, "edges": 40, "diameter": 3
    }  # fmt: skip
    assert value["samples"] == {"min": 3000, "median": 3750, "max": 3750}
    assert value["services"]["tokyo"] == 1
    assert "until,50 rounds\n" in run("wan16", "--format", "csv").stdout
