"""The data of an experiment, divided among its learners.

Takes an `Experiment` and the number of learners, gives a `DataSet` and its parts; may fetch the data set, or use the
catalogue's facts about it. Every node computes the same parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from testbed.code import is_code
from testbed.experiment.language import Experiment, Partition
from testbed.node.data.catalogue import entry_of
from testbed.node.data.dataset import DataSet
from testbed.node.data.fetch import Tell, ensure, silently
from testbed.node.data.load import load_dataset
from testbed.node.data.partition import Part, partition, test_parts
from testbed.node.data.stand_in import stand_in
from testbed.node.data.store import cache_folder, is_stored, place_of

_OPTIONS = {"iid": (), "shards": ("per_node", "variant"), "dirichlet": ("alpha", "min"), "user": ("order",)}
_NO_OPTIONS: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True)
class PartitionedData:
    """A data set, and the training samples of each learner."""

    dataset: DataSet
    parts: list[Part]
    is_estimated: bool = False
    """Whether the data set is not here, so that the sizes of the parts are approximate."""

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(part.size for part in self.parts)


def fetch_data(experiment: Experiment, tell: Tell) -> None:
    """Fetches the data set into the cache if it needs to be; raises NoSource when no source has it."""
    if not is_at_hand(experiment.data.name, experiment.data.options):
        ensure(experiment.data.name, tell=tell)


def partition_data(
    experiment: Experiment,
    learners: int,
    seed: int,
    *,
    cache: Path | None = None,
    tell: Tell = silently,
    fetch: bool = True,
) -> PartitionedData:
    """The same parts for the same experiment, number of learners and seed; raises Impossible where none exist.

    Without `fetch`, a data set that is not here is replaced by one of the same sizes with made-up samples.
    """
    data = experiment.data
    is_real = fetch or is_at_hand(data.name, data.options, cache)
    dataset = load_dataset(data.name, data.options, seed, cache, tell) if is_real else stand_in(entry_of(data.name))
    parts = partition(dataset, learners, data.partition.kind, _options(data.partition), seed)
    test_parts(dataset, parts)  # a learner without test data is reported before anything starts
    return PartitionedData(dataset, parts, is_estimated=not is_real and data.partition.kind == "user")


def is_at_hand(name: str, options: Mapping[str, object] = _NO_OPTIONS, cache: Path | None = None) -> bool:
    """Whether a data set with these options can be opened without a download."""
    if is_code(name) or options.get("path") is not None:
        return True
    entry = entry_of(name)
    return not entry.needs_download or is_stored(entry, place_of(entry, cache_folder(cache)))


def _options(spec: Partition) -> Mapping[str, object]:
    return {key: getattr(spec, key) for key in _OPTIONS[spec.kind]}
