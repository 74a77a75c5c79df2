"""How many files a process may have open at once. Takes nothing, gives nothing; touches the calling process."""

from __future__ import annotations

import resource


def allow_most_files() -> None:
    """As many as an ordinary user may have, for this process and all that it starts."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
