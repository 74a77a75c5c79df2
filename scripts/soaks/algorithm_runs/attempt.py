"""Runs a story in virtual time or with real processes, in a process of its own that ends in time; gives a `Verdict`."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

from soaks.algorithm_runs.story import Story
from soaks.algorithm_runs.verdict import wrong_in
from soaks.algorithm_runs.witness import Witness
from soaks.soak import ROOT, Verdict
from testbed.control.outcome import Outcome
from testbed.plan.files import write_plan
from testbed.plan.model import RunPlan
from testbed.rundir import RunDirectory, create_run
from testbed.runtimes.processes.local_backend import LocalBackend
from testbed.runtimes.processes.run import RealRun
from testbed.runtimes.sim.prepare import prepared
from testbed.runtimes.sim.run import SimRun

REPEAT_EVERY = 10
"""Every so many seeds a run in virtual time is repeated, with nodes taken in another order."""
_TAKES_S = {"sim": 120.0, "local": 420.0}
"""Of real time, at most."""
_COMPUTES_S = 20
"""Of processor time, at most, for a run in virtual time: some hundred times what it needs."""
_GOODBYE_S = 120.0
_MOST_TOLD = 8


def tried(story: Story, folder: Path, runtime: str) -> Verdict:
    """One try in a process of its own; killed when it takes too long."""
    work = in_sim if runtime == "sim" else locally
    longest_s, computes_s = _TAKES_S[runtime], _COMPUTES_S if runtime == "sim" else None
    verdict = apart(lambda: work(story, folder), folder / "verdict.json", longest_s, computes_s)
    if not verdict.is_good and runtime == "local":
        _destroy(folder / "run")
    about = {"seed": story.seed, "draws": story.draws, "events": story.network.events, "then": story.then}
    drawn = {} if verdict.is_good else {"experiment": story.experiment, "topology": story.network.text}
    return Verdict(verdict.is_good, verdict.word, {**about, **verdict.figures, **drawn})


def in_sim(story: Story, folder: Path) -> Verdict:
    """In virtual time, with a witness."""
    plan, witness = story.plan(), Witness()
    with witness.watching():
        directory, outcome = _simulated(plan, folder, "run", shuffle=None)
    wrong = [*wrong_in(story, plan, directory, outcome), *witness.conclude()]
    if story.seed % REPEAT_EVERY == 0:
        again, _ = _simulated(plan, folder, "again", shuffle=story.seed + 1)
        texts_again = _texts(again)
        differing = [name for name, text in _texts(directory).items() if text != texts_again.get(name)]
        wrong += [f"another run, with nodes taken in another order, has another {name}" for name in differing]
    figures: dict[str, object] = {
        "t": round(outcome.t, 3),
        "reason": outcome.reason,
        "missed": len(outcome.failures),
        "posted": witness.posted.total(),
        "arrived": witness.arrived.total(),
        "averaged": witness.averaged,
    }
    return _verdict(wrong, figures, outcome.reason)


def locally(story: Story, folder: Path) -> Verdict:
    """With real processes."""
    plan = story.plan().model_copy(update={"runtime": "local", "engine": "fabric"})
    directory = create_run(folder, "run")
    write_plan(directory, plan)
    outcome = RealRun(plan, directory, LocalBackend()).run()
    wrong = list(wrong_in(story, plan, directory, outcome))
    figures: dict[str, object] = {
        "t": round(outcome.t, 3),
        "reason": outcome.reason,
        "missed": len(outcome.failures),
        "overloaded": len(outcome.overloaded),
    }
    return _verdict(wrong, figures, outcome.reason)


def _verdict(wrong: list[str], figures: dict[str, object], reason: str) -> Verdict:
    told = list(Counter(wrong))[:_MOST_TOLD]
    return Verdict(not wrong, "wrong" if wrong else reason, {**figures, **({"wrong": told} if wrong else {})})


def _simulated(plan: RunPlan, folder: Path, name: str, shuffle: int | None) -> tuple[RunDirectory, Outcome]:
    directory = create_run(folder, name)
    write_plan(directory, plan)
    with prepared(plan, workers=0) as shared:
        return directory, SimRun(plan, directory, shared, shuffle=shuffle).run()


def _texts(directory: RunDirectory) -> dict[str, bytes]:
    files = [directory.events, *(directory.node(name).journal for name in directory.node_names())]
    return {str(each.relative_to(directory.path)): each.read_bytes() for each in files if each.is_file()}


def apart(work: Callable[[], object], file: Path, longest_s: float, computes_s: int | None = None) -> Verdict:
    """The verdict of a forked process, which may take so long, and may use so much processor time."""
    child = os.fork()
    if child == 0:
        if computes_s is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (computes_s, computes_s + 1))
        _give(work, file)
    deadline_s = monotonic() + longest_s
    try:
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                break
            if monotonic() > deadline_s:
                return Verdict(False, "hung", {"real_s": longest_s})
            sleep(0.01)
    finally:
        if not ended:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
        return Verdict(False, "hung", {"computing_s": computes_s})
    if not file.exists():
        return Verdict(False, "died", {"status": status})
    word = json.loads(file.read_text())
    return Verdict(word["is_good"], word["word"], word["figures"])


def _give(work: Callable[[], object], file: Path) -> None:
    """Writes the verdict, and ends this process."""
    try:
        verdict = work()
        if not isinstance(verdict, Verdict):
            raise TypeError(f"no verdict: {verdict!r}")
    except BaseException:  # it is the result
        verdict = Verdict(False, "raised", {"wrong": traceback.format_exc().splitlines()[-12:]})
    file.write_text(json.dumps({"is_good": verdict.is_good, "word": verdict.word, "figures": verdict.figures}))
    sys.stdout.flush()
    os._exit(0)


def _destroy(run: Path) -> None:
    """What is left of a run of real processes ends."""
    command = [sys.executable, "-c", "from testbed.cli.main import main; main()", "destroy", str(run)]
    subprocess.run(command, cwd=ROOT, capture_output=True, timeout=_GOODBYE_S, check=False)
