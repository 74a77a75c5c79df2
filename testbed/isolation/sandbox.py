"""The sandbox of a run's learners: which paths they see, which user they are, which environment they get.

Takes what a run needs, gives it as a file and back: a command hands the file to the processes that it starts.
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
    """The user that learners run as where root has started the run."""

    uid: int
    gid: int


class Sandbox(msgspec.Struct, frozen=True):
    """The sandbox of one run."""

    places: tuple[VisiblePath, ...]
    """Paths that the zygote sees."""
    shared: tuple[VisiblePath, ...] = ()
    """Those of them that each node sees, too."""
    user: LearnerUser | None = None
    """The learners' user, where it is another than the one that starts the run."""
    environment: dict[str, str] = {}
    """Variables that differ from those of the command."""
    has_network: bool = False
    """Whether the zygote stays in the host's network, as its nodes do."""

    def to_file(self) -> int:
        """Writes it to a nameless file and returns the descriptor for child processes: too long for an argument."""
        descriptor = os.memfd_create("sandbox", 0)
        with open(descriptor, "wb", closefd=False) as file:
            file.write(msgspec.json.encode(self))
        return descriptor

    @staticmethod
    def in_file(descriptor: int) -> Sandbox:
        """Reads it from a descriptor, whose position is left unchanged."""
        return msgspec.json.decode(os.pread(descriptor, os.fstat(descriptor).st_size, 0), type=Sandbox)


def learner_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of a command that its learners get: no tokens and no passwords.

    These are paths of programs and libraries, settings of numeric libraries, the language, and testbed's own.
    """
    return {name: value for name, value in variables.items() if name in _NAMES or name.startswith((*_BEGIN, _TESTBED))}
