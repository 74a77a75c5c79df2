"""Stores data sets as arrays that are mapped into memory, so that all processes of a machine share the pages.

Takes arrays, gives a folder, and back; touches the cache. A folder in the cache is always complete: it is written
elsewhere, its `meta.json` last, and renamed into place. Of two processes that fetch the same data set the second waits.

    $TESTBED_DATA, else $XDG_CACHE_HOME/testbed, else ~/.cache/testbed
        fashion-mnist-v1/  train_inputs.npy  train_targets.npy  test_inputs.npy  test_targets.npy  meta.json
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testbed.errors import UsageProblem
from testbed.linux import open_flags
from testbed.node.data.catalogue import CatalogueEntry
from testbed.node.data.file_lock import try_lock, wait_for_lock
from testbed.node.data.formats import Arrays
from testbed.node.data.problems import SourceFailed

SCHEMA = 1
_META = "meta.json"
_MOST_META_BYTES = 100_000


def cache_folder(cache: Path | None = None) -> Path:
    """The folder of all data sets on this machine; it need not exist yet."""
    if cache is not None:
        return cache
    if own := os.environ.get("TESTBED_DATA"):
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(shared) if Path(shared).is_absolute() else Path.home() / ".cache") / "testbed"
    except RuntimeError:
        raise UsageProblem("there is no home to keep data sets in", "say where with TESTBED_DATA=FOLDER") from None


def made(cache: Path) -> Path:
    """Makes the folder and returns its absolute path."""
    with _writing(cache):
        cache.mkdir(parents=True, exist_ok=True)
    return cache.absolute()


def place_of(entry: CatalogueEntry, cache: Path) -> Path:
    """The folder of one data set."""
    return cache / f"{entry.name}-v{SCHEMA}"


def is_stored(entry: CatalogueEntry, place: Path) -> bool:
    """Whether the folder holds the complete data set, according to its `meta.json` and the sizes of its files."""
    try:
        with (place / _META).open("rb") as file:
            meta = json.loads(file.read(_MOST_META_BYTES))
        if meta["schema"] != SCHEMA or meta["name"] != entry.name or meta["arrays"] != _described(entry):
            return False
        return all((place / f"{name}.npy").stat().st_size == size for name, size in meta["file_bytes"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def is_sound(entry: CatalogueEntry, place: Path) -> bool:
    """Whether the stored arrays have the expected hashes; reads all of them."""
    try:
        check_arrays(entry, read(entry, place))
    except (OSError, ValueError, SourceFailed):
        return False
    return True


def read(entry: CatalogueEntry, place: Path) -> Arrays:
    """The stored arrays, mapped read-only."""
    return {name: np.load(place / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in entry.arrays or {}}


def check_arrays(entry: CatalogueEntry, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raises SourceFailed unless these are exactly the arrays of the data set."""
    expected = entry.arrays or {}
    if set(arrays) != set(expected):
        raise SourceFailed(f"expected the arrays {', '.join(expected)}, got {', '.join(arrays)}")
    for name, meant in expected.items():
        array = arrays[name]
        if (str(array.dtype), array.shape) != (meant.dtype, meant.shape):
            raise SourceFailed(f"{name} is {array.dtype} {array.shape}, expected {meant.dtype} {meant.shape}")
        found = sha256_of(array)
        if found != meant.sha256:
            raise SourceFailed(f"{name} has SHA-256 {found}, expected {meant.sha256}")


def sha256_of(array: NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).data.cast("B")).hexdigest()


@contextmanager
def locked(entry: CatalogueEntry, cache: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Locks a data set for one process; the lock ends with the process, however it ends."""
    with _writing(cache):
        descriptor = os.open(
            made(cache) / f".{entry.name}.lock", os.O_RDWR | os.O_CREAT | open_flags("O_CLOEXEC"), 0o666
        )
    try:
        if not try_lock(descriptor):
            tell(f"{entry.name}: another process is fetching it; waiting")
            wait_for_lock(descriptor)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def workspace(entry: CatalogueEntry, cache: Path) -> Iterator[Path]:
    """A temporary folder beside the data sets; also removes those that killed processes left. Needs the lock."""
    for left in cache.glob(f".{entry.name}.*.part"):
        shutil.rmtree(left, ignore_errors=True)
    with _writing(cache):
        folder = Path(tempfile.mkdtemp(prefix=f".{entry.name}.", suffix=".part", dir=cache))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write(entry: CatalogueEntry, arrays: Mapping[str, NDArray[Any]], source: str, folder: Path, place: Path) -> None:
    """Moves checked arrays into place via an empty folder on the same file system. Needs the lock."""
    with _writing(place.parent):
        new, old = folder / "new", folder / "old"
        new.mkdir()
        sizes = {}
        for name, array in arrays.items():
            with (new / f"{name}.npy").open("wb") as file:
                np.save(file, array, allow_pickle=False)
                _settle(file.fileno())
                sizes[name] = file.tell()
        meta = {
            "schema": SCHEMA,
            "name": entry.name,
            "terms": entry.terms,
            "source": source,
            "arrays": _described(entry),
            "file_bytes": sizes,
        }
        with (new / _META).open("w") as file:
            json.dump(meta, file, indent=2)
            _settle(file.fileno())
        with suppress(FileNotFoundError):
            place.rename(old)  # processes that have mapped the old arrays keep them
        new.rename(place)


def _settle(descriptor: int) -> None:
    """Flushes to disk, so that a folder in place is complete even after a power failure."""
    os.fsync(descriptor)


def _described(entry: CatalogueEntry) -> dict[str, dict[str, object]]:
    return {
        name: {"dtype": each.dtype, "shape": list(each.shape), "sha256": each.sha256}
        for name, each in (entry.arrays or {}).items()
    }


@contextmanager
def _writing(cache: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        reason = (problem.strerror or type(problem).__name__).lower()
        raise UsageProblem(
            f"cannot keep data sets in {cache}: {reason}", "say where with TESTBED_DATA=FOLDER"
        ) from None
