"""Reads the file formats in which data sets are published.

Takes paths by our names, gives arrays; touches only those files. Sizes are checked before memory is allocated.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testbed.node.data.problems import SourceFailed

Files = Mapping[str, Path]
Arrays = dict[str, NDArray[Any]]

_MOST_BYTES = 1 << 28
_GZIP = b"\x1f\x8b"
_CIFAR_RECORD = 1 + 3 * 32 * 32
CIFAR_ROWS = 10_000
"""Rows in each of CIFAR's batches."""
CIFAR_BATCHES = ("train1", "train2", "train3", "train4", "train5", "test")


def read_idx_files(files: Files) -> Arrays:
    """Reads the four files of MNIST and data sets like it, compressed or not."""
    return {
        "train_inputs": _images(read_idx(files["train_images"])),
        "train_targets": read_idx(files["train_labels"]).astype(np.int64),
        "test_inputs": _images(read_idx(files["test_images"])),
        "test_targets": read_idx(files["test_labels"]).astype(np.int64),
    }


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Reads a file of bytes in the idx format: a magic number, the shape, the values."""
    with path.open("rb") as raw:
        packed = raw.read(2) == _GZIP
    try:
        with gzip.open(path) if packed else path.open("rb") as file:
            head = file.read(4)
            if len(head) < 4 or head[:3] != b"\0\0\x08" or not 1 <= head[3] <= 4:
                raise SourceFailed(f"{path.name} is not an idx file of bytes")
            shape = [int.from_bytes(file.read(4), "big") for _ in range(head[3])]
            size = int(np.prod(shape, dtype=object))
            if not 0 < size <= _MOST_BYTES:
                raise SourceFailed(f"{path.name} claims {size} bytes")
            values = file.read(size + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
        raise SourceFailed(f"{path.name} is damaged: {problem}") from None
    if len(values) != size:
        raise SourceFailed(f"{path.name} does not have the {size} bytes that it claims")
    return np.frombuffer(values, np.uint8).reshape(shape)


def _images(array: NDArray[np.uint8]) -> NDArray[np.uint8]:
    if array.ndim != 3:
        raise SourceFailed("images must have three dimensions")
    return array[:, np.newaxis]


def read_cifar_pictures(files: Files) -> Arrays:
    """Reads CIFAR-10 from six PNG files, with an image in each row of pixels, and two lists of labels."""
    batches = [_picture_rows(files[name]) for name in CIFAR_BATCHES]
    return {
        "train_inputs": np.concatenate(batches[:-1]),
        "train_targets": _labels(files["train_labels"]),
        "test_inputs": batches[-1],
        "test_targets": _labels(files["test_labels"]),
    }


def _picture_rows(path: Path) -> NDArray[np.uint8]:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path, formats=["PNG"]) as image:
            if image.size != (1024, CIFAR_ROWS) or image.mode != "RGB":
                raise SourceFailed(f"{path.name}: expected {CIFAR_ROWS} rows of 1024 RGB pixels")
            pixels: NDArray[np.uint8] = np.asarray(image)
    except (UnidentifiedImageError, OSError, SyntaxError) as problem:
        raise SourceFailed(f"{path.name} is damaged: {problem}") from None
    return np.ascontiguousarray(pixels.reshape(CIFAR_ROWS, 32, 32, 3).transpose(0, 3, 1, 2))


def _labels(path: Path) -> NDArray[np.int64]:
    try:
        return np.asarray(json.loads(path.read_bytes()), np.int64)
    except (ValueError, TypeError, OverflowError) as problem:
        raise SourceFailed(f"{path.name} is not a list of labels: {problem}") from None


def read_cifar_records(files: Files) -> Arrays:
    """Reads CIFAR-10 in its authors' binary format: a label, then red, green and blue."""
    batches = [_records(files[name]) for name in CIFAR_BATCHES]
    train = np.concatenate(batches[:-1])
    return {**_split_records(train, "train"), **_split_records(batches[-1], "test")}


def _records(path: Path) -> NDArray[np.uint8]:
    if path.stat().st_size != CIFAR_ROWS * _CIFAR_RECORD:
        raise SourceFailed(f"{path.name}: expected {CIFAR_ROWS} records of {_CIFAR_RECORD} bytes")
    return np.fromfile(path, np.uint8).reshape(-1, _CIFAR_RECORD)


def _split_records(records: NDArray[np.uint8], part: str) -> Arrays:
    return {
        f"{part}_inputs": np.ascontiguousarray(records[:, 1:]).reshape(-1, 3, 32, 32),
        f"{part}_targets": records[:, 0].astype(np.int64),
    }


def read_movielens(files: Files) -> Arrays:
    """Reads MovieLens-100K: user, item, rating and time, separated by tabs, with or without a header."""
    path = files["ratings"]
    try:
        with path.open("rb") as file:
            titled = file.read(4) == b"user"
        table = np.loadtxt(path, dtype=np.int64, delimiter="\t", skiprows=int(titled), max_rows=1_000_000, ndmin=2)
    except ValueError as problem:
        raise SourceFailed(f"{path.name} is not a table of ratings: {problem}") from None
    if table.shape[1] != 4:
        raise SourceFailed(f"{path.name}: expected user, item, rating and time, got {table.shape[1]} columns")
    return {"pairs": (table[:, :2] - 1).astype(np.int32), "ratings": table[:, 2].astype(np.float32)}
