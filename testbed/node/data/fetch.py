"""Gets a data set into the cache: tries its sources in order until one gives exactly the right arrays.

Takes a name, gives the folder in the cache; touches the cache, and the network when the data set is not there yet.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from testbed.node.data import store
from testbed.node.data.catalogue import NEED_NO_DOWNLOAD, CatalogueEntry, entry_of
from testbed.node.data.problems import Impossible, SourceFailed
from testbed.node.data.problems import NoSource as NoSource

Tell = Callable[[str], None]


def silently(words: str) -> None:
    """Discards progress messages."""


def ensure(name: str, *, cache: Path | None = None, tell: Tell = silently, check: bool = False) -> Path:
    """The folder of a data set, fetched if needed; with `check`, stored data is verified and replaced if damaged."""
    entry = entry_of(name)
    if not entry.needs_download:
        raise Impossible(f"{name} needs no download: it is made where it is needed")
    return ensure_entry(entry, store.cache_folder(cache), tell, check)


def ensure_entry(entry: CatalogueEntry, cache: Path, tell: Tell, check: bool = False) -> Path:
    """The same for an entry that need not be in the catalogue."""
    place = store.place_of(entry, cache)
    if store.is_stored(entry, place) and not check:
        return place
    with store.locked(entry, cache, tell):
        if store.is_stored(entry, place):  # another process may have fetched it meanwhile
            if not check or store.is_sound(entry, place):
                return place
            tell(f"{entry.name}: what is in {place} is damaged; fetching it again")
        _fetch(entry, cache, place, tell)
    return place


def _fetch(entry: CatalogueEntry, cache: Path, place: Path, tell: Tell) -> None:
    reasons = []
    with store.workspace(entry, cache) as folder:
        for number, source in enumerate(entry.sources):
            tell(f"{entry.name}: fetching {source.size_bytes / 1e6:.1f} MB: {source.words}")
            download = folder / f"source{number}"
            download.mkdir()
            try:
                arrays = source.arrays(download)
                store.check_arrays(entry, arrays)
            except SourceFailed as problem:
                reasons.append(f"{source.words}: {problem}")
                tell(f"{entry.name}: that failed: {problem}")
                continue
            except OSError as problem:
                reasons.append(f"{source.words}: {problem.strerror or problem}")
                tell(f"{entry.name}: that failed: {problem.strerror or problem}")
                continue
            finally:
                shutil.rmtree(download, ignore_errors=True)
            store.write(entry, arrays, source.words, folder, place)
            tell(f"{entry.name}: stored in {place} ({entry.stored_bytes / 1e6:.1f} MB). Terms: {entry.terms}")
            return
    tried = "; ".join(reasons) or "it has no source"
    raise NoSource(
        f"cannot fetch the data set {entry.name}: {tried}",
        f"data sets that need no download: {', '.join(NEED_NO_DOWNLOAD)}",
    )
