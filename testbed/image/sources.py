"""What of a checkout a Dockerfile takes into the image: whatever else lies there is nobody's business.

Takes a Dockerfile's text, gives names; pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

EVERYTHING = "*"
_CONTINUED = re.compile(r"\\[ \t]*\n")
_TAKES = re.compile(r"^[ \t]*(?:COPY|ADD)[ \t]+(.*)$", re.IGNORECASE | re.MULTILINE)


def sources_of(dockerfile: str) -> set[str]:
    """The first parts of all paths that it copies, which may be patterns; EVERYTHING where they can be any."""
    return {
        _first_part(source)
        for line in _TAKES.findall(_CONTINUED.sub(" ", dockerfile))
        for source in _sources_in(line.strip())
    }


def _sources_in(line: str) -> Iterator[str]:
    """Without the place in the image, which is the last word."""
    words = line.split()
    flags = [word for word in words if word.startswith("--")]
    if any(flag.startswith("--from=") for flag in flags):  # it is another image's
        return
    rest = words[len(flags) :]
    if rest and rest[0].startswith("["):
        try:
            rest = [str(each) for each in json.loads(" ".join(rest))]
        except ValueError:
            yield EVERYTHING
            return
    yield from rest[:-1]


def _first_part(source: str) -> str:
    parts = PurePosixPath(source.lstrip("/")).parts
    return EVERYTHING if not parts or parts[0] == ".." or "$" in parts[0] else parts[0]
