"""Whether words on a terminal may have colours. Takes the environment, gives what click wants."""

from __future__ import annotations

import os


def colour() -> bool | None:
    """False where nobody wants any; None leaves it to whether it is a terminal."""
    return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None
