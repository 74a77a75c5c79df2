"""Values that remember where in the source they stand: what both readers give to the builder.

Pure data. Scalars are text throughout; the language decides by the key what a text means, so that `no`, `010` or
`12:30:00` are never silently turned into something else.
"""

from __future__ import annotations

from typing import Union

Value = Union[str, None, "MarkedMap", "MarkedList"]


class MarkedMap(dict[str, Value]):
    """Keys and values, with the byte offset of each, and the word the source itself uses for a key."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at
        self._places: dict[str, tuple[int, int]] = {}
        self._words: dict[str, str] = {}

    def put(self, key: str, value: Value, key_at: int, value_at: int, word: str | None = None) -> None:
        """Add a value; `word` is what the source calls the key, if that is another word."""
        self[key] = value
        self._places[key] = (key_at, value_at)
        if word is not None:
            self._words[key] = word

    def place(self, key: str) -> tuple[int, int]:
        """Where the key stands, and where its value; the map's own place for a key that is not written out."""
        return self._places.get(key, (self.at, self.at))

    def spelled(self, key: str, otherwise: str | None = None) -> str:
        """The source's own word for a key (XML says `upload` for `up`); where it has none, `otherwise` or the key."""
        return self._words.get(key, otherwise or key)


class MarkedList(list[Value]):
    """Items, with the byte offset of each."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at
        self.item_at: list[int] = []

    def put(self, value: Value, at: int) -> None:
        self.append(value)
        self.item_at.append(at)
