"""`first-run`: the first run of a newcomer is valid every time.

The quickstart's own deploy and the default experiment of the small bundled topologies, as real processes.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

from soaks.soak import ROOT, Case, Soak, Verdict

TOPOLOGIES = ("lan4", "lan16", "wan16")
ROUNDS = 5
"""Of the default experiment's 50. What decides about health are shares and percentiles: a beginning, where learners are
late most easily, weighs more in fewer rounds, and twenty tries of each end within an hour even at large time scales."""
_DEPLOY = re.compile(r'"\$testbed" deploy (?P<words>.*?) --run-id', re.DOTALL)
_LONGEST_S = 1800
_GOODBYE_S = 120
"""How long `destroy` may take."""
_TESTBED = (sys.executable, "-c", "from testbed.cli.main import main; main()")


def quickstart_words() -> list[str]:
    """The quickstart's `deploy` command, read from its script."""
    found = _DEPLOY.search((ROOT / "scripts" / "quickstart").read_text())
    if found is None:
        raise SystemExit("scripts/quickstart deploys nothing that this soak can find")
    return shlex.split(found["words"].replace("\\\n", " "))


def judged(summary: dict[str, object]) -> Verdict:
    """A try succeeds if the run ends as planned and is valid by its own judgement."""
    health, reason = str(summary["health"]), summary["reason"]
    kept = ("why", "computing", "lateness", "time_scale", "ready_s", "real_s", "t", "reason")
    figures = {key: summary[key] for key in kept if key in summary}
    return Verdict(health == "valid" and reason == "finished", health, figures)


def _deployed(words: list[str], folder: Path) -> Verdict:
    """Runs a command; kills it, with all that it has started, if it does not end in time."""
    command = [*_TESTBED, "deploy", *words]
    where = ["--runtime", "local", "--results", str(folder / "results"), "--run-id", "soak", "--quiet"]
    try:
        done = subprocess.run([*command, *where], cwd=ROOT, capture_output=True, text=True, timeout=_LONGEST_S)
    except subprocess.TimeoutExpired:
        return Verdict(False, "hung", {"seconds": _LONGEST_S, "destroyed": _is_destroyed(folder / "results" / "soak")})
    summary = folder / "results" / "soak" / "summary.json"
    if summary.exists():
        return judged(json.loads(summary.read_text()))
    return Verdict(False, "not run", {"exit_code": done.returncode, "said": done.stderr.splitlines()[-5:]})


def _is_destroyed(run: Path) -> bool:
    try:
        done = subprocess.run([*_TESTBED, "destroy", str(run)], cwd=ROOT, capture_output=True, timeout=_GOODBYE_S)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _case(name: str, words: list[str]) -> Case:
    return Case(name, lambda folder, _: _deployed(words, folder))


SOAK = Soak(
    name="first-run",
    about="the quickstart's run and the default one of small topologies are valid, as real processes",
    cases=(
        _case("quickstart", quickstart_words()),
        *(_case(name, [f"topologies/{name}.xml", "--rounds", str(ROUNDS)]) for name in TOPOLOGIES),
    ),
    tries=lambda busy: 10 if busy else 20,
    wanted=lambda tries, busy: tries - tries // 10 if busy else tries,
)
