"""`fuzz`: a hundred thousand inputs for every parser, different ones each time."""

from __future__ import annotations

from pathlib import Path

from soaks.soak import Case, Soak, Verdict
from soaks.tested import tested

_INPUTS = 100_000


def _doors(folder: Path, number: int) -> Verdict:  # noqa: ARG001
    settings = {"TESTBED_TEST_FUZZ": str(_INPUTS), "TESTBED_TEST_FUZZ_SEED": str(number + 2)}
    return tested(["-n2", "tests/test_untrusted_input.py"], settings)


SOAK = Soak(
    name="fuzz",
    about="files, arguments and packets, changed at random: each ends in an answer or in an error that is ours",
    cases=(Case("doors", _doors),),
    tries=lambda _: 1,
    wanted=lambda tries, _: tries,
)
