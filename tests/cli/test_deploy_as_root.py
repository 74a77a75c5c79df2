"""`deploy` of real processes as root: researchers' code could do anything then, which is told in one line."""

from __future__ import annotations

import os

import pytest

from testbed.cli import run_preflight
from testbed.cli.run_preflight import check_machine
from tests.runtimes.local_runs import locally
from tests.runtimes.sim_runs import plan_of, star


@pytest.mark.parametrize("user", [0, 1000])
def test_only_root_is_warned(user: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(run_preflight, "needs_of", lambda _: [])
    said: list[str] = []
    check_machine(locally(plan_of(star(2)), "none"), said.append, force=False, is_fitted=True)
    warned = [
        line for line in said if line.startswith("warning: as root, ") and "run testbed as an ordinary user" in line
    ]
    assert said == warned
    assert len(warned) == (1 if user == 0 else 0)
