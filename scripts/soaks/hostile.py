"""`hostile`: the catalogue of attacks by learners, in each runtime, and which of them are denied."""

from __future__ import annotations

from soaks.soak import Case, Soak
from soaks.tested import ALL_TESTS, tested

_LOCAL = [
    "tests/runtimes/test_local_hostile.py",
    "tests/runtimes/test_local_apart.py",
    "tests/runtimes/test_local_limits.py",
]
_CONTAINERS = ["tests/docker/test_security.py"]
_PROTOCOLS = [
    "tests/engines/test_hostile.py",
    "tests/control/test_flood.py",
    "tests/protocol",
    "tests/test_run_files.py",
]


def _case(name: str, words: list[str]) -> Case:
    return Case(name, lambda _folder, _number: tested(["-v", *words], ALL_TESTS))


SOAK = Soak(
    name="hostile",
    about="learners that read, write, reach, forge, flood, fork and gorge: what each runtime lets them do",
    cases=(_case("local", _LOCAL), _case("docker", _CONTAINERS), _case("sockets and files", _PROTOCOLS)),
    tries=lambda _: 1,
    wanted=lambda tries, _: tries,
)
