"""Names the step of setting up a node's network that a machine denies.

Takes an OSError, gives a `NetworkDenied`; touches nothing. Imports little, since a container's first process imports
it: `denied` is loaded only when a step is denied.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from testbed.engines.steps import Step


@contextmanager
def during(step: Step) -> Iterator[None]:
    """Turns an OSError raised within into a `NetworkDenied` that names the step."""
    try:
        yield
    except OSError as problem:
        from testbed.engines.denied import NetworkDenied

        raise NetworkDenied(step, problem.strerror or str(problem), problem.errno or 0) from problem
