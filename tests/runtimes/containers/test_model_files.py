"""Files where nodes leave models: no learner can make control read another file."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from testbed.protocol.nodes import SLOTS
from testbed.rundir import NodeDirectory
from testbed.runtimes.processes.model_files import ModelFiles, remove_models

PARAMETERS = 6


@pytest.fixture
def directories(tmp_path: Path) -> list[NodeDirectory]:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    return [NodeDirectory(tmp_path / "a"), NodeDirectory(tmp_path / "b")]


def vector(value: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.full(PARAMETERS, value, np.float32)


def test_what_a_node_leaves_is_what_the_judge_reads(directories: list[NodeDirectory]) -> None:
    own = ModelFiles([directories[1]] * 2, PARAMETERS)  # a node knows only its own folder
    evaluator = ModelFiles(directories, PARAMETERS)
    assert own.put(1, vector(2.5), is_last=False) == 0
    assert own.put(1, vector(3.5), is_last=False) == 1
    found = evaluator.vectors([1, 1], [0, 1])
    assert [each.tolist() for each in found] == [vector(2.5).tolist(), vector(3.5).tolist()]


def test_the_last_slot_is_for_the_last_round(directories: list[NodeDirectory]) -> None:
    own = ModelFiles(directories, PARAMETERS)
    taken = [own.put(0, vector(each), is_last=False) for each in range(SLOTS + 1)]
    assert taken == [*range(SLOTS - 1), None, None]
    assert own.put(0, vector(9), is_last=True) == SLOTS - 1
    assert own.put(0, vector(9), is_last=True) is None
    own.clear([0], [2])
    assert own.put(0, vector(1), is_last=False) == 2


@pytest.mark.parametrize("size", [0, 4 * PARAMETERS - 1, 4 * PARAMETERS + 1])
def test_a_file_of_another_size_is_no_model(directories: list[NodeDirectory], size: int) -> None:
    files = ModelFiles(directories, PARAMETERS)
    files.put(0, vector(1), is_last=False)
    (directories[0].path / "left-models" / "0.f32").write_bytes(b"\0" * size)
    with pytest.raises(ValueError, match="a model has 24"):
        files.vectors([0], [0])


def test_a_link_to_another_file_is_not_followed(directories: list[NodeDirectory]) -> None:
    files = ModelFiles(directories, PARAMETERS)
    files.put(0, vector(1), is_last=False)
    files.put(1, vector(7), is_last=False)
    place = directories[0].path / "left-models" / "0.f32"
    place.unlink()
    place.symlink_to(directories[1].path / "left-models" / "0.f32")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        files.vectors([0], [0])


def test_a_pipe_without_a_writer_makes_nobody_wait(directories: list[NodeDirectory]) -> None:
    files = ModelFiles(directories, PARAMETERS)
    (directories[0].path / "left-models").mkdir()
    os.mkfifo(directories[0].path / "left-models" / "0.f32")
    with pytest.raises(ValueError, match="holds 0 bytes"):
        files.vectors([0], [0])


def test_a_pipe_with_a_silent_writer_makes_nobody_wait_either(directories: list[NodeDirectory]) -> None:
    files = ModelFiles(directories, PARAMETERS)
    (directories[0].path / "left-models").mkdir()
    os.mkfifo(directories[0].path / "left-models" / "0.f32")
    writer = os.open(directories[0].path / "left-models" / "0.f32", os.O_RDWR)
    with pytest.raises(ValueError, match="holds 0 bytes"):
        files.vectors([0], [0])
    os.close(writer)


def test_a_folder_that_leads_elsewhere_is_not_entered(directories: list[NodeDirectory]) -> None:
    """Neither to read another node's model, nor to remove it."""
    files = ModelFiles(directories, PARAMETERS)
    files.put(1, vector(7), is_last=False)
    (directories[0].path / "left-models").symlink_to(directories[1].path / "left-models")
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        files.vectors([0], [0])
    files.clear([0], [0])
    remove_models(directories[0])
    assert [each.tolist() for each in files.vectors([1], [0])] == [vector(7).tolist()]
    assert list(directories[0].path.iterdir()) == []


def test_nothing_of_them_stays(directories: list[NodeDirectory]) -> None:
    files = ModelFiles(directories, PARAMETERS)
    files.put(0, vector(1), is_last=False)
    remove_models(directories[0])
    remove_models(directories[0])
    assert list(directories[0].path.iterdir()) == []
