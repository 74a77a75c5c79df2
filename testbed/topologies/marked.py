"""Values with their positions in the source, which both readers pass to the builder.

Pure data. All scalars are text; the language parses them by key, so that `no`, `010` or `12:30:00` are never silently
converted.
"""

from __future__ import annotations

from typing import Union

Value = Union[str, None, "MarkedMap", "MarkedList"]


class MarkedMap(dict[str, Value]):
    """A map with the byte offsets of its keys and values, and the source's own words for keys."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at
        self._places: dict[str, tuple[int, int]] = {}
        self._words: dict[str, str] = {}

    def put(self, key: str, value: Value, key_at: int, value_at: int, word: str | None = None) -> None:
        """Adds a value; `word` is the source's name of the key, if it differs."""
        self[key] = value
        self._places[key] = (key_at, value_at)
        if word is not None:
            self._words[key] = word

    def place(self, key: str) -> tuple[int, int]:
        """Offsets of a key and its value; the map's own offset for a key that is not written out."""
        return self._places.get(key, (self.at, self.at))

    def spelled(self, key: str, otherwise: str | None = None) -> str:
        """The source's word for a key (such as `upload` in XML for `up`); otherwise `otherwise` or the key."""
        return self._words.get(key, otherwise or key)


class MarkedList(list[Value]):
    """A list with the byte offset of each item."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at
        self.item_at: list[int] = []

    def put(self, value: Value, at: int) -> None:
        self.append(value)
        self.item_at.append(at)
