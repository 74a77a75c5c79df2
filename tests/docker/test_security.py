"""Learners that do harm: to nothing but their own run, which says so. What each does is a file in `hostile/`."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from testbed.cli.main import main
from testbed.image.engine_client import connected
from testbed.plan.containers import LEARNER_PIDS
from testbed.runtimes.docker.containers import FOLDER_LABEL, NODE_LABEL
from testbed.runtimes.tracking.removal import clear_away
from tests.docker.hostile.escapes import DENIED
from tests.docker.hostile_runs import (
    deploy_words,
    events,
    finished,
    lines,
    need_hostile_image,
    notes,
    write_experiment,
)
from tests.docker.ordinary_user import Ordinary, with_a_folder
from tests.docker.runs import environment, until, words

DONE = (0, 7)
HONEST = ("good.0", "fine.0")
ROUNDS = 6
OWN_FILE = '{"type": "start", "t": 0.0, "of": "somebody\'s own file"}\n'


@pytest.fixture(scope="module")
def hostile_image() -> str:
    return need_hostile_image()


# -- one run in which everybody does something else --------------------------------------------------------------------


@dataclass
class Crowd:
    """A run that is over."""

    folder: Path
    ended: subprocess.CompletedProcess[str]
    callers: dict[str, bool]
    """By what a process of the host listened at: whether anybody came."""

    @property
    def run(self) -> Path:
        return self.folder / "results" / "crowd"


@pytest.fixture(scope="module")
def crowd(hostile_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    folder = tmp_path_factory.mktemp("crowd")
    secret = folder / "secret"
    secret.write_text(OWN_FILE)
    nodes = ("good", "fine", "escapes", "intrudes", "forges", "litters", "kills")
    with Listeners() as host:
        told = {"port": host.port, "hosts": ",".join(own_addresses()), "abstract": host.name, "secret": str(secret)}
        file = write_experiment(folder, nodes, ROUNDS, **told)
        try:
            yield Crowd(folder, finished(folder, words(*deploy_words(file, "crowd", hostile_image))), host.callers())
        finally:
            finished(folder, words("destroy", "crowd"))


class Listeners:
    """What a host may have open to itself."""

    def __init__(self) -> None:
        self.name = f"testbed-test-{os.getpid()}"
        self._open: dict[str, socket.socket] = {}

    def __enter__(self) -> Listeners:
        tcp, udp, abstract = socket.socket(), socket.socket(type=socket.SOCK_DGRAM), socket.socket(socket.AF_UNIX)
        tcp.bind(("0.0.0.0", 0))  # noqa: S104 - everywhere, so that all can reach it
        self.port = int(tcp.getsockname()[1])
        udp.bind(("0.0.0.0", self.port))  # noqa: S104
        abstract.bind("\0" + self.name)
        self._open = {"tcp": tcp, "udp": udp, "abstract": abstract}
        for each in self._open.values():
            each.setblocking(False)
        tcp.listen()
        abstract.listen()
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._open.values():
            each.close()

    def callers(self) -> dict[str, bool]:
        return {name: self._was_called(each) for name, each in self._open.items()}

    @staticmethod
    def _was_called(listener: socket.socket) -> bool:
        try:
            if listener.type == socket.SOCK_DGRAM:
                listener.recv(1)
            else:
                listener.accept()[0].close()
        except BlockingIOError:
            return False
        return True


def own_addresses() -> set[str]:
    """Of the host, as others would see it."""
    found = set()
    for elsewhere in ("192.0.2.1", "172.17.0.1"):
        with suppress(OSError), socket.socket(type=socket.SOCK_DGRAM) as made:
            made.connect((elsewhere, 9))
            found.add(str(made.getsockname()[0]))
    return found


def test_all_the_others_come_to_their_end(crowd: Crowd) -> None:
    assert crowd.ended.returncode in DONE, crowd.ended.stderr
    told = json.loads((crowd.run / "summary.json").read_text())
    assert (told["reason"], told["finished"], told["failed"], told["broken"]) == ("finished", 7, [], [])
    for node in HONEST:
        assert [each["reason"] for each in lines(crowd.run / "nodes" / node / "journal.jsonl")[-1:]] == ["finished"]


def test_there_is_no_way_out(crowd: Crowd) -> None:
    tried = notes(crowd.run, "escapes.0", "escape")
    assert [each for each in tried if f": {DENIED}: " not in each] == []
    named = {each.split(": ")[0] for each in tried}
    assert len(named) > 55
    assert {"tcp 192.0.2.1", "/var/run/docker.sock", "ptrace", "another tun", "what else is there"} <= named
    assert crowd.callers == {"tcp": False, "udp": False, "abstract": False}


def test_nobody_is_let_in_twice_or_as_somebody_else(crowd: Crowd) -> None:
    tried = notes(crowd.run, "intrudes.0", "intrusion")
    assert len(tried) == 9
    assert [each for each in tried if "TAKEN" in each or "an answer" in each] == []
    assert sum("refused" in each for each in tried) >= 4
    told = events(crowd.run, "not-understood")
    assert {each["node"] for each in told} == {"intrudes.0"}
    assert sum(each["detail"].startswith("by the fabric: ") for each in told) == 1
    assert len(told) == 2
    assert max(each["t"] for each in lines(crowd.run / "events.jsonl")) < 1000, "whatever time it says it is"
    about_others = [each for each in lines(crowd.run / "events.jsonl") if each.get("node") in HONEST]
    assert {each["what"] for each in about_others} == {"joined"}


def test_what_was_forged_is_refused_by_whom_it_was_sent_to_and_told(crowd: Crowd) -> None:
    assert notes(crowd.run, "forges.0", "forged") == ["all of it"]
    for node in HONEST:
        refused = notes(crowd.run, node, "refused")
        kinds = {each.split(":")[0] for each in refused}
        assert kinds >= {"impostor", "malformed", "foreign-protocol", "greedy"}
        assert all("forges.0" in each for each in refused if "foreign" not in each), refused
    assert list(crowd.run.rglob("unpickled")) == []
    health = json.loads((crowd.run / "engine" / "health.json").read_text())
    assert all("foreign_source" not in node.get("unfit", {}) for node in health["nodes"]), "no forged one ever left"


def test_what_is_left_in_place_of_models_is_not_read(crowd: Crowd) -> None:
    """Neither a link, a pipe, a folder, a giant nor a folder that leads elsewhere."""
    lost = [each["detail"] for each in events(crowd.run, "average-lost") if "round 1000000000" not in each["detail"]]
    assert len(lost) == ROUNDS
    assert all("cannot be read" in each for each in lost), lost
    assert not (crowd.run / "nodes" / "litters.0" / "left-models").is_symlink()
    assert json.loads((crowd.run / "summary.json").read_text())["run_id"] == "crowd"


def test_what_it_leaves_in_place_of_its_journal_and_its_log_is_not_read_either(crowd: Crowd) -> None:
    node = crowd.run / "nodes" / "litters.0"
    assert node.joinpath("log.txt").is_symlink()
    assert node.joinpath("log.txt").read_text() == OWN_FILE, "or it would prove nothing"
    collected = finished(crowd.folder, words("collect", "results", "--format", "json"))
    assert "nodes/litters.0/journal.jsonl is a link, which is not followed" in collected.stdout
    logs = finished(crowd.folder, words("logs", "crowd"))
    assert logs.returncode == 0, logs.stderr
    status = finished(crowd.folder, words("status", "crowd", "--format", "json"))
    assert status.returncode == 0, status.stderr
    destroyed = finished(crowd.folder, words("destroy", "crowd"))
    assert destroyed.returncode == 0, destroyed.stderr
    for told in (collected, logs, status, destroyed):
        assert "somebody's own" not in told.stdout + told.stderr
        assert "\x1b" not in told.stdout + told.stderr
    assert (crowd.folder / "secret").read_text() == OWN_FILE
    assert list(crowd.folder.rglob("pwned")) == []


def test_processes_without_end_come_to_one(crowd: Crowd) -> None:
    (told,) = notes(crowd.run, "kills.0", "bomb")
    count, _, why = told.partition(": ")
    assert 20 < int(count) < LEARNER_PIDS
    assert why == "Resource temporarily unavailable"


def test_all_that_a_run_leaves_is_the_callers(crowd: Crowd) -> None:
    assert {path.lstat().st_uid for path in crowd.run.rglob("*")} == {os.getuid()}


# -- two runs at once --------------------------------------------------------------------------------------------------

ODD = ("$(touch pwned)", "a b; touch pwned & `touch pwned`ü'\"…")


@pytest.mark.soaked
def test_a_run_is_not_disturbed_by_another_that_floods_and_never_ends(hostile_image: str, tmp_path: Path) -> None:
    """And whatever its nodes are called, no shell gets to see it."""
    run = tmp_path / "results" / "undisturbed"
    with ExitStack() as stack:
        for name in ("undisturbed", "hostile"):
            stack.callback(finished, tmp_path, words("destroy", name))
        file = write_experiment(tmp_path, ODD, 5000)
        other = stack.enter_context(going(tmp_path, words(*deploy_words(file, "undisturbed", hostile_image))))
        until(lambda: rounds_of(run, f"{ODD[0]}.0") >= 2)
        labels = {each["Labels"].get(NODE_LABEL): each["Names"] for each in containers_in(run)}
        for rank, name in enumerate(ODD):
            (container,) = labels[f"{name}.0"]
            assert re.fullmatch(rf"/testbed-undisturbed-[0-9a-f]{{6}}-[a-zA-Z0-9_.-]+-r{rank}", container)

        file = write_experiment(tmp_path, ("good", "floods"), 500)
        hostile = finished(tmp_path, words(*deploy_words(file, "hostile", hostile_image)))
        assert hostile.returncode == 6, hostile.stderr
        assert "node floods.0 failed: it sent 100 malformed messages; disconnected" in hostile.stderr
        own = tmp_path / "results" / "hostile"
        assert [each["node"] for each in events(own, "flood")] == ["floods.0"]
        assert [each["node"] for each in events(own, "not-understood")] == ["floods.0"]
        assert [each["node"] for each in events(own, "failed")] == ["floods.0"]
        assert lines(own / "nodes" / "good.0" / "journal.jsonl")[-1]["reason"] == "stopped"

        before = rounds_of(run, f"{ODD[0]}.0")
        until(lambda: rounds_of(run, f"{ODD[0]}.0") > before + 3)
        other.send_signal(signal.SIGINT)
        _, said = other.communicate(timeout=100)
        assert other.returncode == 130, said
        told = json.loads((run / "summary.json").read_text())
        assert (told["reason"], told["failed"], told["broken"]) == ("interrupted", [], [])
        assert [each for what in ("flood", "not-understood", "failed", "died") for each in events(run, what)] == []
        assert list(tmp_path.rglob("pwned")) == []


class going(subprocess.Popen[str]):  # noqa: N801 - as a verb
    """A command that goes on, killed in the end whatever happens."""

    def __init__(self, folder: Path, arguments: list[str]) -> None:
        super().__init__(arguments, cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True)

    def __exit__(self, *why: Any) -> None:
        self.kill()
        super().__exit__(*why)


def rounds_of(run: Path, node: str) -> int:
    return sum(each["type"] == "round" for each in lines(run / "nodes" / node / "journal.jsonl"))


def containers_in(run: Path) -> list[dict[str, Any]]:
    with connected() as engine:
        return list(engine.api.containers(all=True, filters={"label": f"{FOLDER_LABEL}={run.resolve()}"}))


# -- an ordinary user's run --------------------------------------------------------------------------------------------


@pytest.fixture
def user() -> Iterator[Ordinary]:
    with with_a_folder() as made:
        yield made


def test_all_that_an_ordinary_users_failed_run_leaves_is_theirs(hostile_image: str, user: Ordinary) -> None:
    """Of learners that take all memory, and that close their folders."""
    file = write_experiment(user.folder, ("good", "gorges", "closes"), 50)
    run = user.folder / "results" / "mine"
    try:
        ended = user.did(*deploy_words(file, "mine", hostile_image))
        assert ended.returncode == 6, ended.stderr
        assert "node gorges.0 failed: its process was over before its work: killed by SIGKILL" in ended.stderr
        assert "out of memory" in ended.stderr
        assert containers_in(run) == []
        assert not (run / "runtime" / "sockets").exists()
    finally:
        gone = user.did("destroy", "mine")
    assert gone.returncode == 0, gone.stderr
    collected = user.did("collect", "results")
    assert "gorges.0 (its process was over before its work: killed by SIGKILL)" in collected.stderr
    deep = run / "nodes" / "closes.0" / "d"
    assert deep.is_dir()
    clear_away(deep)
    assert not deep.exists()
    left = [*(user.folder / "results").rglob("*"), *(user.folder / "cache").rglob("*")]
    assert {path.lstat().st_uid for path in left} == {user.uid}


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../x", "..", "-rf", "a/b", "/etc/passwd", "x" * 300, "a\nb", "\x1b[31m", "~", ""])
def test_names_that_lead_elsewhere_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = write_experiment(tmp_path, (name, "b"), 1)
    there = sorted(tmp_path.rglob("*"))
    for arguments in (
        ["deploy", str(file), "--runtime", "docker", "--run-id", "r"],
        ["render", str(file), "--target", "compose", "-o", "made"],
    ):
        told = CliRunner().invoke(main, arguments)
        assert told.exit_code == 3, told.output
        assert "bad-name" in told.output
        assert "\x1b" not in told.output
    assert sorted(tmp_path.rglob("*")) == there


@pytest.mark.parametrize("name", ["../x", "..", "-rf", "a/b", "a b", "$(touch pwned)", "x" * 300])
def test_nor_can_a_run_be_called_that(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = write_experiment(tmp_path, ("a", "b"), 1)
    there = sorted(tmp_path.rglob("*"))
    for arguments in (
        ["deploy", str(file), "--runtime", "docker", f"--run-id={name}"],
        ["render", str(file), "--target", "compose", "-o", "made", f"--run-id={name}"],
    ):
        told = CliRunner().invoke(main, arguments)
        assert told.exit_code == 2, told.output
        assert "cannot be a run's name" in told.output
    assert sorted(tmp_path.rglob("*")) == there
