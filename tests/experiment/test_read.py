"""Experiment files and settings: what they mean, and where their mistakes are."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.errors import InvalidInput, UsageProblem
from testbed.experiment.read import experiment_on, is_experiment, load_experiment, setting
from testbed.topologies.bundled import BUNDLED
from tests.examples import examples


def write(folder: Path, text: str, name: str = "x.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def problems(path: Path, *options: str) -> list[tuple[str, int, int, str]]:
    with pytest.raises(InvalidInput) as caught:
        load_experiment(path, [setting(each) for each in options]).require()
    assert caught.value.exit_code == 3
    return [(each.code, *each.where, each.hint) for each in caught.value.findings]


def test_a_file_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, "topology: a.xml\noverlay: ring\ntraining: {lr: 1e-3}\nstop:\n  time: 2m\n")
    experiment = load_experiment(path).require()
    assert (experiment.topology, experiment.overlay.kind, experiment.training.lr) == ("a.xml", "ring", 0.001)
    assert (experiment.stop.time_s, experiment.stop.rounds) == (120.0, None)


def test_every_mistake_is_told_at_its_place(tmp_path: Path) -> None:
    text = (
        "topology: a.xml\n"
        "overlay: {kind: regulr, degre: 5}\n"
        "algorithm: {name: epidemic, fanot: 3, server: }\n"
        "data: {name: mnist, partition: {kind: shardz, per_nod: 2}}\n"
        "training: {lr: x, steps: 5, epochs: 1}\n"
        "compute: {factors: [{nodes: a, factor: 1}, {nodes: a, factr: 1}]}\n"
        "modle: mlp\n"
    )
    assert problems(write(tmp_path, text)) == [
        ("bad-value", 2, 17, "did you mean `regular`? (or your own, as module:Name or file.py:Name)"),
        ("unknown-key", 2, 25, "did you mean `degree`?"),
        ("unknown-key", 3, 29, "did you mean `fanout`?"),
        ("empty-value", 3, 47, "give one, or remove the key"),
        ("bad-value", 4, 39, "did you mean `shards`?"),
        ("unknown-key", 4, 47, "did you mean `per_node`?"),
        ("bad-value", 5, 16, "write a number such as 0.5"),
        ("both", 5, 37, "remove one of the two"),
        ("unknown-key", 6, 55, "did you mean `factor`?"),
        ("unknown-key", 7, 1, "did you mean `model`?"),
    ]


@pytest.mark.parametrize(
    ("text", "code", "where"),
    [
        ("overlay: ring\n", "missing", (1, 1)),
        ("", "empty", (1, 1)),
        ("- a\n", "bad-shape", (1, 1)),
        ("topology: [a]\n", "bad-shape", (1, 11)),
        ("topology: a\nseed: 1\nseed: 2\n", "duplicate-key", (3, 1)),
        ("topology: a\nseed: 010\n", "yaml-trap", (2, 7)),
        ("topology: a\nmissing: {after_s: 5s}\n", "unknown-key", (2, 11)),
        ("topology: a\nstop: 5\n", "bad-shape", (2, 7)),
        ("topology: a\n---\ntopology: b\n", "several-documents", (2, 1)),
        ("topology: a\n  b: {\n", "syntax", (2, 4)),
        ("topology: a\nalgorithm: own.py:Mine\n", "no-file", (2, 12)),
        ("topology: a\noverlay: {file: edges}\n", "no-file", (2, 17)),
        ("topology: a\ncompute: {factors: {nodes: a, trace: t.csv}}\n", "no-file", (2, 38)),
    ],
)
def test_one_mistake(tmp_path: Path, text: str, code: str, where: tuple[int, int]) -> None:
    found = problems(write(tmp_path, text))
    assert [(each[0], each[1:3]) for each in found] == [(code, where)]


def test_messages_speak_of_experiments(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_experiment(write(tmp_path, "- a\n")).require()
    assert caught.value.findings[0].message == "an experiment is a mapping"
    assert caught.value.findings[0].hint == "begin with `topology:`"


def test_settings_go_over_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "topology: a\ntraining: {lr: 0.1, batch: 4}\noverlay: ring\n")
    options = ["training.lr=0.2", "stop.rounds=7", "compute.factors=[{share: 0.5, factor: 3}]", "overlay.dynamic=true"]
    experiment = load_experiment(path, [setting(each) for each in options]).require()
    assert (experiment.training.lr, experiment.training.batch, experiment.stop.rounds) == (0.2, 4, 7)
    assert experiment.compute.factors[0].factor == 3
    assert (experiment.overlay.kind, experiment.overlay.dynamic) == ("ring", True)


def test_later_settings_win_and_do_not_change_what_is_shared(tmp_path: Path) -> None:
    path = write(tmp_path, "topology: a\nsharing: &s {name: topk, fraction: 0.2}\n")
    read = load_experiment(path, [setting("sharing.fraction=0.3"), setting("sharing.fraction=0.4")])
    assert read.require().sharing.options["fraction"] == 0.4
    assert load_experiment(path).require().sharing.options["fraction"] == 0.2


def test_another_choice_leaves_the_old_options_behind(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "topology: a\nalgorithm: {name: epidemic, fanout: 3}\noverlay: {degree: 4, dynamic: false}\n"
        "data: {name: mnist, partition: {kind: dirichlet, alpha: 5}}\n",
    )
    options = ["algorithm.name=fedavg", "overlay.kind=ring", "data.name=digits", "algorithm.participation=0.5"]
    experiment = load_experiment(path, [setting(each) for each in options]).require()
    assert experiment.algorithm.options["participation"] == 0.5
    assert "fanout" not in experiment.algorithm.options
    assert experiment.data.partition.alpha == 5
    same = load_experiment(path, [setting("algorithm.name=epidemic")]).require()
    assert same.algorithm.options["fanout"] == 3


@pytest.mark.parametrize(
    ("option", "code", "column", "hint"),
    [
        ("training.lrr=0.1", "unknown-key", 7, "did you mean `lr`?"),
        ("training.lr=fast", "bad-value", 19, "write a number such as 0.5"),
        ("trainin.lr=1", "unknown-key", 7, "did you mean `training.lr`?"),
        ("lr=3", "unknown-key", 7, "did you mean `training.lr`?"),
        ("steps=3", "unknown-key", 7, "did you mean `training.steps`?"),
        ("fanout=3", "unknown-key", 7, "did you mean `algorithm.fanout`?"),
        ("alpha=3", "unknown-key", 7, "did you mean `data.partition.alpha`?"),
        ("time=3s", "unknown-key", 7, "did you mean `stop.time`?"),
        ("every=3", "unknown-key", 7, "did you mean `evaluation.every` or `snapshots.every`?"),
        ("mods=sgd", "unknown-key", 7, "did you mean `model`?"),
        ("stop.lr=3", "unknown-key", 7, "did you mean `training.lr`?"),
        (
            "overlay=edges.txt",
            "bad-value",
            15,
            "for a file of edges say `overlay.file`: --set overlay.file=FILE, or `overlay: {file: FILE}`",
        ),
        ("algorithm=gossip.py", "bad-value", 17, "write gossip.py:Name"),
        ("overlay={kind: ring, degre: 2}", "unknown-key", 28, "did you mean `degree`?"),
        ("seed", "bad-setting", 1, "write --set training.lr=0.1"),
        ("=1", "bad-setting", 1, "write --set training.lr=0.1"),
        ("seed={", "syntax", 12, "check the indentation, colons and quotes around here"),
        ("seed=", "empty-value", 12, "give one, or remove the key"),
    ],
)
def test_a_wrong_setting_is_named(option: str, code: str, column: int, hint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        experiment_on("a.xml", [setting("seed=1"), setting(option)]).require()
    assert caught.value.file == f"--set {option}"
    found = caught.value.findings
    assert [(each.code, each.where.line, each.where.column) for each in found] == [(code, 1, column)]
    assert found[0].hint == hint


def test_several_wrong_settings_are_all_told() -> None:
    with pytest.raises(InvalidInput) as caught:
        experiment_on("a.xml", [setting("seed=x"), setting("training.lr=y")]).require()
    assert sorted(each.message for each in caught.value.findings) == [
        "--set seed=x: seed: `x` is not a whole number",
        "--set training.lr=y: lr: `y` is not a number",
    ]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.yaml", "topology: x\n", True),
        ("a.yaml", "overlay: ring\n", True),
        ("a.yaml", "services: {}\nnetwork: a\n", False),
        ("a.yaml", "name: a\nlinks: []\n", False),
        ("a.yaml", "topology: x\n  bad: {\n", True),
        ("a.yaml", "", False),
        ("a.xml", "topology: x\n", False),
        ("a.txt", "topology: x\n", False),
    ],
)
def test_which_file_is_an_experiment(tmp_path: Path, name: str, text: str, expected: bool) -> None:
    assert is_experiment(write(tmp_path, text, name)) is expected


def test_no_bundled_topology_is_taken_for_an_experiment() -> None:
    assert not any(is_experiment(each.path) for each in BUNDLED)


def test_files_are_found_beside_the_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    monkeypatch.chdir(outside)
    write(outside, "class Mine: pass\n", "own.py")
    write(outside, "time,factor\n0,9\n", "t.csv")
    path = write(inside, "topology: a\nalgorithm: own.py:Mine\ncompute: {factors: {nodes: a, trace: t.csv}}\n")
    read = load_experiment(path).require()
    assert read.algorithm.name == "own.py:Mine"
    assert read.compute.factors[0].trace == ((0.0, 9.0),)
    write(inside, "class Mine: pass\n", "own.py")
    write(inside, "# slow in the middle\ntime, factor\n0, 1\n30s, 4\n1m, 1\n", "t.csv")
    read = load_experiment(path).require()
    assert read.algorithm.name == f"{inside}/own.py:Mine"
    assert read.compute.factors[0].trace == ((0.0, 1.0), (30.0, 4.0), (60.0, 1.0))


@pytest.mark.parametrize("text", ["0,1\n0,2\n", "a\n", "0,1,2\n", "", "0,1\n5,x\n"])
def test_a_bad_trace_is_told_at_its_key(tmp_path: Path, text: str) -> None:
    write(tmp_path, text, "t.csv")
    path = write(tmp_path, "topology: a\ncompute: {factors: {nodes: a, trace: t.csv}}\n")
    (found,) = problems(path)
    assert found[1:3] == (2, 38)


def test_a_file_that_is_not_there_is_a_usage_problem(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem):
        load_experiment(tmp_path / "none.yaml")


_keys = st.sampled_from(
    ["topology", "overlay", "algorithm", "training", "compute", "factors", "name", "kind", "x", "lr"]
)
_values: st.SearchStrategy[object] = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from(["mlp", "auto"])
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_keys, inner, max_size=4)),
    max_leaves=12,
)


@settings(max_examples=examples(150), deadline=None)
@given(st.dictionaries(_keys, _values, max_size=6))
def test_whatever_a_file_holds_the_answer_is_findings(
    tmp_path_factory: pytest.TempPathFactory, document: object
) -> None:
    import yaml

    path = write(tmp_path_factory.mktemp("fuzz"), yaml.safe_dump(document))
    read = load_experiment(path)
    assert (read.experiment is None) == (read.problem is not None or any(f.severity == "error" for f in read.findings))


@pytest.mark.parametrize("option", ["algorithm.name=\udcff", "\udcff.lr=1", "model.name=\ud800"])
def test_arguments_that_are_no_unicode_are_told(tmp_path: Path, option: str) -> None:
    """Bytes of another encoding come in as half characters, which nothing can print or write."""
    ((code, line, column, hint),) = problems(write(tmp_path, "topology: a\n"), option)
    assert (code, line, column) == ("encoding", 1, 1)
    assert "UTF-8" in hint


@pytest.mark.parametrize("value", ["1e39", "1e308"])
def test_rates_that_no_float_bears_are_refused(tmp_path: Path, value: str) -> None:
    ((code, *_),) = problems(write(tmp_path, "topology: a\n"), f"training.lr={value}")
    assert code == "bad-value"
