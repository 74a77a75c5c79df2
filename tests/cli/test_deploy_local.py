"""`testbed deploy` of real processes: the bundled topologies from end to end, two with one name, an ordinary user."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

import testbed
from tests.cli.in_process import command
from tests.engines.world import need_tun_for_all
from tests.runtimes.local_runs import needs_network
from tests.runtimes.scratch_run import PATIENCE_S, ScratchRun, made_in, until

pytestmark = needs_network

MOST_ATTEMPTS = 3
"""Of a run that ends overloaded: other tests have this machine too."""
IN_TIME_S, LATE_S = 0.1, 1.0
"""On a machine with nothing else to do all begin within some milliseconds (docs/performance.md)."""
A_USER = 54321
"""A user id without a process."""


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScratchRun]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TESTBED_RUNTIME", raising=False)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with made_in(tmp_path) as made:
        yield made


def begun(journal: Path) -> float:
    """By the clock that all share, how long after the start barrier a node has begun."""
    with journal.open() as lines:
        first = json.loads(next(lines))
    assert first["type"] == "start"
    return float(first["t"])


@pytest.mark.alone
@pytest.mark.parametrize(("name", "nodes"), [("lan4", 4), ("wan16", 16)])
def test_a_bundled_topology_from_end_to_end(name: str, nodes: int, scratch: ScratchRun) -> None:
    """Where this machine was busy meanwhile the run says so, and is tried again.

    All begin at one moment of a clock that they share; to get a core then takes longer where others work here.
    """
    settings = ("--data", "digits", "--rounds", "2", "--set", "compute.ms_per_step=250", "--set", "training.steps=1")
    for attempt in range(MOST_ATTEMPTS):
        run_id = f"{name}-{attempt}"
        result = command("deploy", f"topologies/{name}.xml", *settings, "--run-id", run_id)
        summary = json.loads((scratch.results / run_id / "summary.json").read_text())
        assert (result.exit_code, summary["health"]) in ((0, "valid"), (7, "overloaded")), result.stderr
        assert ("OVERLOADED" in result.stderr) is (result.exit_code == 7)
        begun_s = [begun(path) for path in sorted((scratch.results / run_id).glob("nodes/*/journal.jsonl"))]
        if result.exit_code == 0 and median(begun_s) < IN_TIME_S:
            break
    assert result.exit_code == 0, result.stderr
    assert len(begun_s) == nodes
    assert 0.0 <= min(begun_s) <= median(begun_s) < IN_TIME_S
    assert max(begun_s) < LATE_S
    assert "runtime: local" in result.stderr
    assert f"finished: {nodes} nodes, 2 rounds, accuracy" in result.stderr
    assert (summary["reason"], summary["finished"], summary["failed"], summary["broken"]) == ("finished", nodes, [], [])
    (run,) = json.loads(command("collect", f"results/{run_id}", "--format", "json").stdout)["runs"]
    assert (run["health"], run["engine"], run["rounds"], run["problems"]) == ("valid", "fabric", 2, [])
    table = command("collect", f"results/{run_id}")
    assert table.exit_code == 0
    assert run_id in table.stdout
    links = (scratch.results / run_id / "engine" / "links.jsonl").read_text().splitlines()
    assert all(json.loads(line) for line in links)
    assert links


def test_of_two_runs_with_one_name_one_goes_on(scratch: ScratchRun) -> None:
    with scratch.start() as one, scratch.start() as other:
        until(lambda: one.poll() is not None or other.poll() is not None)
        late, early = (one, other) if one.poll() is not None else (other, one)
        _, said = late.communicate(timeout=PATIENCE_S)
        assert late.returncode == 2, said
        assert "results/long exists already" in said
        assert "give another --run-id" in said
        assert "Traceback" not in said
        scratch.reach("training", early)
        namespaces = scratch.namespaces()
        assert len(namespaces) == 4, "three nodes', and that of the process they are forked from"
        early.send_signal(signal.SIGTERM)
        _, said = early.communicate(timeout=PATIENCE_S)
    assert early.returncode == 130, said
    scratch.assert_nothing_is_left(namespaces)
    assert set(scratch.last_words().values()) == {"interrupted"}


def reachable() -> list[str]:
    """Words of a shell script that makes this interpreter and this package reachable for everybody.

    They may be in a private folder of a user. Such a folder is covered, in this mount namespace only, by an empty one
    in which just what is needed can be found.
    """
    needed = {Path(sys.base_prefix), Path(sys.prefix), Path(testbed.__file__).parent.parent}
    hidden = {path: _first_private(path) for path in sorted(needed)}
    script = ["set -e", "kept=$(mktemp -d)", 'mount -t tmpfs tmpfs "$kept"', 'chmod 755 "$kept"']
    inside = [(number, path) for number, (path, private) in enumerate(hidden.items()) if private is not None]
    for number, path in inside:
        script += [f'mkdir "$kept/{number}"', f"mount --rbind '{path}' \"$kept/{number}\""]
    script += [
        f"mount -t tmpfs -o mode=755 tmpfs '{each}'" for each in sorted({each for each in hidden.values() if each})
    ]
    for number, path in inside:
        script += [f"mkdir -p '{path}'", f"mount --rbind \"$kept/{number}\" '{path}'"]
    return [*script, 'exec "$@"']


def _first_private(path: Path) -> Path | None:
    """The outermost folder on the way that others cannot enter."""
    return next((each for each in reversed((path, *path.parents)) if not each.stat().st_mode & 0o001), None)


def test_an_ordinary_user_needs_no_more() -> None:
    if os.getuid() != 0:
        pytest.skip("every other test here ran it as an ordinary user")
    need_tun_for_all()
    folder = Path(tempfile.mkdtemp(prefix="tbt-"))
    try:
        folder.chmod(0o777)
        environment = {**os.environ, "HOME": str(folder), "TMPDIR": str(folder)}
        environment.pop("TESTBED_RUNTIME", None)
        user = ["setpriv", f"--reuid={A_USER}", f"--regid={A_USER}", "--clear-groups"]
        deploy = ["deploy", "topologies/lan4.xml", "--data", "digits", "--rounds", "2", "--run-id", "theirs"]
        arguments = [
            *("unshare", "--mount", "sh", "-c", "\n".join(reachable()), "sh"),
            *(*user, sys.executable, "-m", "testbed", *deploy, "--set", "compute.ms_per_step=100"),
        ]
        result = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert result.returncode in (0, 7), result.stderr  # others have this machine too
        assert "runtime: local" in result.stderr
        summary = folder / "results" / "theirs" / "summary.json"
        assert summary.stat().st_uid == A_USER
        told = json.loads(summary.read_text())
        assert (told["reason"], told["finished"], told["failed"], told["remarks"]) == ("finished", 4, [], [])
        assert [each.name for each in folder.iterdir() if each.name.startswith("testbed-")] == []
    finally:
        shutil.rmtree(folder)
