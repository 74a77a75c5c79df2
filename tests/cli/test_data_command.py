"""`testbed data`: lists, tells, fetches, divides and draws."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from testbed.cli.data import PARTITIONS
from testbed.cli.main import main
from testbed.experiment.language import Experiment
from testbed.node.data.catalogue import ENTRIES
from testbed.node.data.partition import KINDS


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TESTBED_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["data", *map(str, arguments)])


def succeed(*arguments: str | Path) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_list_has_all_and_says_what_is_here() -> None:
    rows = json.loads(succeed("list", "--format", "json"))
    assert [row["name"] for row in rows] == list(ENTRIES)
    assert {row["name"] for row in rows if row["here"]} == {"digits", "synthetic"}
    table = succeed("list").splitlines()
    assert any("fashion-mnist" in line and "30.9" in line and " no " in line for line in table)
    assert len(list(csv.DictReader(io.StringIO(succeed("list", "--format", "csv"))))) == len(ENTRIES)


@pytest.mark.processes
def test_the_list_is_made_without_large_imports() -> None:
    script = """
import sys
from click.testing import CliRunner
from testbed.cli.data import command
assert CliRunner().invoke(command, ["list", "--format", "json"]).exit_code == 0
print({"torch", "sklearn", "matplotlib", "scipy", "PIL", "pydantic", "networkx"} & set(sys.modules))
"""
    found = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert found.stdout == "set()\n"


def test_info_tells_classes_terms_and_where() -> None:
    told = json.loads(succeed("info", "digits", "--format", "json"))
    assert told["train"] == 1500
    assert told["input_shape"] == [1, 8, 8]
    assert told["place"] is None
    assert sum(each["train"] for each in told["samples"]) == 1500
    assert sum(each["test"] for each in told["samples"]) == 297
    films = succeed("info", "movielens")
    assert "no redistribution" in films
    assert "not fetched: `testbed data fetch movielens`" in films
    assert "terms" in succeed("info", "movielens", "--format", "csv")


@pytest.mark.parametrize("verb", ["info", "fetch", "partition"])
def test_an_unknown_name_is_a_usage_problem(verb: str) -> None:
    more = ["--learners", "2"] if verb == "partition" else []
    result = run(verb, "cifar-10", *more)
    assert result.exit_code == 2
    assert "did you mean `cifar10`?" in result.stderr


def test_fetching_what_needs_no_download_is_no_error(cache: Path) -> None:
    result = run("fetch", "digits", "synthetic")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert result.stderr.count("needs no download") == 2
    assert not cache.exists()


def test_no_source_ends_with_4_and_names_what_needs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # no server listens there
    result = run("fetch", "fashion-mnist")
    assert result.exit_code == 4
    assert "apt-get is not installed here" in result.stderr
    assert "30.9 MB" in result.stderr
    assert "digits, synthetic" in result.stderr
    assert "Traceback" not in result.output


def test_a_cache_that_cannot_be_is_a_usage_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TESTBED_DATA", str(tmp_path / "file"))
    result = run("fetch", "fashion-mnist")
    assert result.exit_code == 2
    assert "TESTBED_DATA" in result.stderr


def test_the_kinds_of_partition_are_those_of_the_node() -> None:
    assert set(PARTITIONS) == set(KINDS)


def test_a_partition_in_numbers() -> None:
    arguments = ("partition", "digits", "--learners", 16, "--kind", "shards", "--per-node", 2, "--seed", 3)
    told = json.loads(succeed(*map(str, arguments), "--format", "json"))
    assert told["partition"] == {"kind": "shards", "per_node": 2}
    assert len(told["learners"]) == 16
    assert sum(each["samples"] for each in told["learners"]) == 1500
    for each in told["learners"]:
        assert each["samples"] == sum(each["counts"])
        assert each["classes"] == sum(count > 0 for count in each["counts"]) <= 4
        assert each["test_samples"] == 297
    rows = list(csv.DictReader(io.StringIO(succeed(*map(str, arguments), "--format", "csv"))))
    assert [int(row["class_3"]) for row in rows] == [each["counts"][3] for each in told["learners"]]
    result = run(*map(str, arguments))
    assert "16 learners with 93 to 94 samples each" in result.stderr
    assert "class 9" in result.stdout


def test_a_partition_without_a_kind_is_what_an_experiment_has(tmp_path: Path) -> None:
    told = json.loads(succeed("partition", "digits", "--learners", "4", "--format", "json"))
    assert (
        told["partition"]["kind"] == Experiment.model_validate({"topology": "t", "data": "digits"}).data.partition.kind
    )
    file = tmp_path / "ratings.csv"
    file.write_text("userId,movieId,rating,timestamp\n" + "".join(f"{u},{m},3,1\n" for u in range(6) for m in range(5)))
    arguments = ("partition", "movielens", "--set", f"path={file}", "--learners", "3", "--format", "json")
    assert json.loads(succeed(*arguments))["partition"]["kind"] == "user"


OWN = """import numpy as np

from testbed.node.data.dataset import DataSet, Kind, Samples


def dots(seed, samples=10):
    half = Samples(np.zeros((samples, 3), np.float32), np.arange(samples) % 2)
    return DataSet("dots", Kind.CLASSES, 2, (3,), 0, 0, half, half, mean=(0.5,))


def nothing(seed):
    return 1 / 0
"""


def test_data_of_ones_own_is_told_of_as_partitions_are(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(OWN)
    told = json.loads(succeed("info", f"{file}:dots", "--set", "samples=7", "--format", "json"))
    assert (told["train"], told["test"], told["classes"], told["input_shape"]) == (7, 7, 2, [3])
    assert (told["scale"], told["mean"], told["std"], told["users"]) == (1.0, [0.5], None, None)
    assert told["samples"] == [{"target": "0", "train": 4, "test": 4}, {"target": "1", "train": 3, "test": 3}]
    assert "samples: 1" in succeed("info", f"{file}:dots")
    assert len(json.loads(succeed("partition", f"{file}:dots", "--learners", "2", "--format", "json"))["learners"]) == 2
    for name, options, words in (
        ("nothing", (), "own.py:12: division by zero"),
        ("dot", (), "did you mean `dots`?"),
        ("dots", ("--set", "sample=7"), "sample"),
    ):
        result = run("info", f"{file}:{name}", *options)
        assert result.exit_code == 3
        assert words in result.stderr
        assert "Traceback" not in result.output
    assert run("info", "digits", "--set", "normalise=none").exit_code == 2


def test_options_of_data_and_partition_reach_it() -> None:
    sets = ("--set", "users=8", "--set", "samples=400", "--set", "spread=0.1")
    told = json.loads(succeed("partition", "synthetic", *sets, "--learners", "4", "--kind", "user", "--format", "json"))
    assert [each["users"] for each in told["learners"]] == [2] * 4
    alike = succeed(
        "partition", "digits", "--learners", "4", "--kind", "dirichlet", "--alpha", "1000", "--format", "csv"
    )
    apart = succeed(
        "partition", "digits", "--learners", "4", "--kind", "dirichlet", "--alpha", "0.05", "--format", "csv"
    )
    assert ",0," not in alike
    assert ",0," in apart


def test_ratings_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "ratings.csv"
    file.write_text(
        "userId,movieId,rating,timestamp\n" + "".join(f"{u},{m},{m}.5,1\n" for u in range(6) for m in range(5))
    )
    arguments = ("partition", "movielens", "--set", f"path={file}", "--learners", "3", "--kind", "user")
    told = json.loads(succeed(*arguments, "--format", "json"))
    assert [each["samples"] for each in told["learners"]] == [8] * 3
    assert [each["test_samples"] for each in told["learners"]] == [2] * 3
    assert "rating 4.5" in succeed(*arguments)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--learners", "2000"), 3, "1500 samples to train on, too few for 2000 learners"),
        (("--learners", "0"), 2, "--learners"),
        ((), 2, "--learners"),
        (("--learners", "4", "--kind", "user"), 3, "does not say which user"),
        (("--learners", "4", "--alpha", "1"), 3, "no option `alpha`"),
        (("--learners", "4", "--set", "x"), 2, "OPTION=VALUE"),
        (("--learners", "4", "--set", "x=1"), 3, "no option `x`"),
        (("--learners", "4", "--draw", "x.gif"), 2, ".svg, .png"),
        (("--learners", "4", "--draw", "nowhere/x.svg"), 2, "nowhere"),
    ],
)
def test_what_cannot_be(arguments: tuple[str, ...], code: int, words: str) -> None:
    result = run("partition", "digits", *arguments)
    assert result.exit_code == code
    assert words in result.stderr
    assert "Traceback" not in result.output


SVG = "{http://www.w3.org/2000/svg}"


def _root(picture: Path) -> ET.Element:
    return ET.parse(picture).getroot()  # noqa: S314 - we wrote it ourselves


@pytest.mark.parametrize("learners", [1, 16, 256, 300])
def test_the_picture_has_a_cell_for_every_class_that_somebody_has(tmp_path: Path, learners: int) -> None:
    target = tmp_path / "who.svg"
    arguments = ("partition", "digits", "--learners", str(learners), "--kind", "shards", "--draw", target)
    told = json.loads(succeed(*arguments, "--format", "json"))
    root = _root(target)
    polygons = root.findall(f"{SVG}polygon")
    cells = [each for each in polygons if each.get("class") == "cell"]
    expected = {
        f"learner {each['learner']}: {count} of {label}"
        for each in told["learners"]
        for count, label in zip(each["counts"], told["targets"], strict=True)
        if count
    }
    assert {each.findtext(f"{SVG}title") for each in cells} == expected
    assert len([each for each in polygons if each.get("class") == "bar"]) == learners
    wide, tall = float(root.get("width", 0)), float(root.get("height", 0))
    assert wide <= 1300
    for each in polygons:
        for point in each.get("points", "").split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= wide
            assert 0 <= y <= tall


def test_two_cells_of_one_picture_never_overlap(tmp_path: Path) -> None:
    target = tmp_path / "who.svg"
    succeed("partition", "digits", "--learners", "40", "--kind", "iid", "--draw", target)
    boxes = set()
    for each in _root(target).findall(f"{SVG}polygon"):
        if each.get("class") == "cell":
            boxes.add(each.get("points", "").split()[0])
    assert len(boxes) >= 390


def test_the_picture_as_png(tmp_path: Path) -> None:
    succeed("partition", "digits", "--learners", "3", "--draw", tmp_path / "WHO.PNG")
    assert (tmp_path / "WHO.PNG").read_bytes().startswith(b"\x89PNG")
