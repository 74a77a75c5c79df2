"""What of the environment of a command goes on to learners. Takes variables, gives some of them; pure.

Tokens and passwords of whoever typed the command are none of a learner's business.
"""

from __future__ import annotations

from collections.abc import Mapping

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


def passed_on(variables: Mapping[str, str]) -> dict[str, str]:
    """Where programs and libraries lie, how these compute, languages, and whatever is testbed's."""
    return {name: value for name, value in variables.items() if name in _NAMES or name.startswith((*_BEGIN, _TESTBED))}
