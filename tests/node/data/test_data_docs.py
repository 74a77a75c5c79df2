"""The page on data tells the truth: its commands and its example are run."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from testbed.cli.main import main
from testbed.node.data.catalogue import ENTRIES
from testbed.node.data.dataset import DataSet
from testbed.node.data.load import load_dataset
from testbed.node.data.partition import KINDS

PAGE = (Path(__file__).parents[3] / "docs" / "data.md").read_text()
FENCE = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = FENCE.findall(PAGE)
FILES = {name: text for _, name, text in BLOCKS if name}


@pytest.mark.slow
def test_the_commands_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESTBED_DATA", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    commands = [line for kind, _, text in BLOCKS if kind == "console" for line in text.splitlines()]
    assert len(commands) >= 10
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "testbed"
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, f"{command}: {result.output}"


def test_the_example_is_a_data_set(tmp_path: Path) -> None:
    (tmp_path / "stripes.py").write_text(FILES["stripes.py"])
    dataset = load_dataset(f"{tmp_path / 'stripes.py'}:stripes", {"samples": 60}, 1)
    assert (len(dataset.train), len(dataset.test)) == (30, 30)
    assert (dataset.train.inputs[0, 0, 0] == dataset.train.inputs[0, 0, 0, 0]).all(), "stripes of class 0 lie"
    assert (dataset.train.inputs[1, 0, :, 0] == dataset.train.inputs[1, 0, 0, 0]).all(), "stripes of class 1 stand"


def test_a_model_sees_what_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "stripes.py").write_text(FILES["stripes.py"])
    dataset = load_dataset(f"{tmp_path / 'stripes.py'}:stripes", {"samples": 60}, 1)
    raw = dataset.train.inputs[:5].astype(float)
    seen = dataset.batch(dataset.train, np.arange(5))
    assert np.allclose(seen, (raw * dataset.scale - dataset.mean[0]) / dataset.std[0], atol=1e-5)
    assert "`(input · scale − mean) / std`" in PAGE
    for each in fields(DataSet):
        assert f"`{each.name}`" in PAGE.split("| field |")[1].split("\n\n")[0]


def test_every_data_set_and_partition_is_in_its_table() -> None:
    for name in (*ENTRIES, *KINDS):
        assert re.search(rf"^\| `{name}` \|", PAGE, re.MULTILINE), name
