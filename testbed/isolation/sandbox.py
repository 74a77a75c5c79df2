"""How the learners of a run are kept from this machine and from each other: what they see, who they are.

Takes what a run needs, gives it as a file and back: a command hands it to the processes that it starts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from testbed.isolation.view import VisiblePath

_NAMES = frozenset({"PATH", "LANG", "LANGUAGE", "TZ", "TERM", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX"})
_BEGIN = (
    "LC_",
    "PYTHON",
    "OMP_",
    "MKL_",
    "OPENBLAS_",
    "BLIS_",
    "NUMEXPR_",
    "KMP_",
    "GOMP_",
    "TORCH",
    "ATEN_",
    "MALLOC_",
)
_TESTBED = "TESTBED_"


class LearnerUser(msgspec.Struct, frozen=True):
    """Who learners are where root has started the run."""

    uid: int
    gid: int


class Sandbox(msgspec.Struct, frozen=True):
    """Of one run."""

    places: tuple[VisiblePath, ...]
    """What the process sees that all nodes are forked from."""
    shared: tuple[VisiblePath, ...] = ()
    """What of it each node sees, too."""
    user: LearnerUser | None = None
    """Another user than who starts it."""
    environment: dict[str, str] = {}
    """What is other in it than in that of who starts it."""
    has_network: bool = False
    """The process that nodes are forked from stays in the host's network, since they do."""

    def to_file(self) -> int:
        """A descriptor of a file without a name, which processes may inherit: it may be long."""
        descriptor = os.memfd_create("sandbox", 0)
        with open(descriptor, "wb", closefd=False) as file:
            file.write(msgspec.json.encode(self))
        return descriptor

    @staticmethod
    def in_file(descriptor: int) -> Sandbox:
        """It may be read again."""
        return msgspec.json.decode(os.pread(descriptor, os.fstat(descriptor).st_size, 0), type=Sandbox)


def learner_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of a command that its learners get: no tokens and no passwords.

    These are paths of programs and libraries, settings of numeric libraries, the language, and testbed's own.
    """
    return {name: value for name, value in variables.items() if name in _NAMES or name.startswith((*_BEGIN, _TESTBED))}
