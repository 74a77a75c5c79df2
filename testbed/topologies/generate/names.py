"""Names that every runtime accepts.

Takes any text, gives names of `[a-z0-9-]`, at most 18 characters, starting with a letter, each handed out once;
touches nothing. 18, because Kollaps leaves 25 characters to a stack's name and a service's name together.
"""

from __future__ import annotations

import re
import unicodedata

LONGEST_NAME = 18
SUPERVISOR_NAME = "dashboard"
SUPERVISOR_IMAGE = "kollaps/dashboard:1.0"
SUPERVISOR_PORT = 8088

_TAKEN_BY_KOLLAPS = ("dashboard", "logger")
_LETTERS_WITHOUT_A_BASE = str.maketrans({"ß": "ss", "ø": "o", "Ø": "o", "æ": "ae", "Æ": "ae", "ł": "l", "Ł": "l"})


def plain_name(text: str) -> str:
    """The text reduced to lower-case ASCII letters, digits and single dashes; `site` when nothing is left."""
    decomposed = unicodedata.normalize("NFKD", text[:200].translate(_LETTERS_WITHOUT_A_BASE))
    ascii_text = "".join(char for char in decomposed if not unicodedata.combining(char)).lower()
    name = re.sub(r"[^a-z0-9]+", "-", ascii_text).strip("-")
    for word in _TAKEN_BY_KOLLAPS:  # Kollaps treats every service with such a name as its own
        name = name.replace(word, "site")
    if not name:
        return "site"
    return name if name[0].isalpha() else f"n{name}"


class Names:
    """Allocates unique names."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def take(self, base: str, suffix: str = "", prefix: str = "") -> str:
        """`prefix` + `base` + `suffix`, with the base shortened and numbered where length or uniqueness require it."""
        wanted = plain_name(base)
        name = _joined(prefix, wanted, suffix)
        count = self._next.get(name, 2)
        first = name
        while name in self._taken:
            name = _joined(prefix, wanted, f"{suffix}-{count}")
            count += 1
        self._next[first] = count
        self._taken.add(name)
        return name


def _joined(prefix: str, base: str, suffix: str) -> str:
    room = LONGEST_NAME - len(prefix) - len(suffix)
    return f"{prefix}{base[:room].rstrip('-')}{suffix}"
