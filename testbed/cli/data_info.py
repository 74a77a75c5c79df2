"""The output of `testbed data list` and `testbed data info`.

Takes entries of the catalogue, gives rows and values to print; looks into the cache of data sets.
"""

from __future__ import annotations

from collections.abc import Mapping

from testbed.cli.output import Cell
from testbed.node.data import store
from testbed.node.data.catalogue import CatalogueEntry
from testbed.node.data.dataset import DataSet

LIST_COLUMNS = ("name", "kind", "train", "test", "shape", "download_mb", "here", "summary")


def is_here(entry: CatalogueEntry) -> bool:
    """Whether the data set can be used without a network."""
    return not entry.needs_download or store.is_stored(entry, store.place_of(entry, store.cache_folder()))


def list_row(entry: CatalogueEntry) -> tuple[Cell, ...]:
    shape = "×".join(map(str, entry.input_shape))
    download = round(entry.sources[0].size_bytes / 1e6, 1) if entry.sources else 0.0
    return entry.name, str(entry.kind), entry.train, entry.test, shape, download, is_here(entry), entry.summary


def describe(entry: CatalogueEntry) -> dict[str, object]:
    """Everything about a data set; samples per class only when it is here."""
    here = is_here(entry)
    place = store.place_of(entry, store.cache_folder()) if entry.needs_download else None
    return {
        "name": entry.name,
        "summary": entry.summary,
        "kind": str(entry.kind),
        "train": entry.train,
        "test": entry.test,
        "input_shape": list(entry.input_shape),
        "classes": entry.classes or None,
        "users": entry.users or None,
        "items": entry.items or None,
        "mean": list(entry.mean) or None,
        "std": list(entry.std) or None,
        "terms": entry.terms,
        "sources": [f"{source.words}, {source.size_bytes / 1e6:.1f} MB" for source in entry.sources] or None,
        "stored_mb": round(entry.stored_bytes / 1e6, 1) if entry.needs_download else None,
        "here": here,
        "place": (str(place) if here else f"not fetched: `testbed data fetch {entry.name}`") if place else None,
        "samples": _per_target(_load(entry.name, {})) if here else None,
    }


def describe_own(spec: str, options: Mapping[str, object]) -> dict[str, object]:
    """Everything about the data set that a researcher's function makes; raises Impossible if it is none."""
    dataset = _load(spec, options)
    return {
        "name": dataset.name,
        "kind": str(dataset.kind),
        "train": len(dataset.train),
        "test": len(dataset.test),
        "input_shape": list(dataset.input_shape),
        "inputs": str(dataset.train.inputs.dtype),
        "classes": dataset.classes or None,
        "users": dataset.users or None,
        "items": dataset.items or None,
        "scale": dataset.scale,
        "mean": list(dataset.mean) or None,
        "std": list(dataset.std) or None,
        "samples": _per_target(dataset),
    }


def _load(spec: str, options: Mapping[str, object]) -> DataSet:
    from testbed.node.data.load import load_dataset

    return load_dataset(spec, options, seed=1)


def _per_target(dataset: DataSet) -> list[dict[str, object]]:
    """Number of samples of each class, or of each rating."""
    from testbed.node.data.partition import targets_of

    labels = target_labels(dataset)
    return [
        {
            "target": label,
            "train": int((dataset.train.targets == target).sum()),
            "test": int((dataset.test.targets == target).sum()),
        }
        for label, target in zip(labels, targets_of(dataset), strict=True)
    ]


def target_labels(dataset: DataSet) -> list[str]:
    """Labels of the classes or ratings."""
    from testbed.node.data.catalogue import ENTRIES
    from testbed.node.data.partition import targets_of

    entry = ENTRIES.get(dataset.name)
    names = entry.class_names if entry and len(entry.class_names) == dataset.classes else ()
    return [
        f"{target:g}" + (f" {names[at]}" if names else "") for at, target in enumerate(targets_of(dataset).tolist())
    ]
