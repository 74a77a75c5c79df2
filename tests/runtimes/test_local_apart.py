"""Learners of `local` are kept from this machine, and from each other: what each of them tries, it tells itself."""

from __future__ import annotations

import ast
import json
import os
import socket
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from testbed.isolation.sandbox_check import sandbox_support
from testbed.plan.files import read_plan
from testbed.records import Event
from testbed.rundir import RunDirectory
from testbed.runtimes.tracking.file_owners import LEARNERS
from tests.runtimes.local_runs import needs_network, run
from tests.runtimes.sim_runs import plan_of, records, star

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(sandbox_support().denied is not None, reason=f"{sandbox_support().denied}"),
]

LOOKS = """
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from testbed.node.algorithms.dpsgd import DPSGD

TOLD = json.loads({told!r})


def attempt(work):
    try:
        return repr(work())
    except OSError as problem:
        return f"denied: {{problem.strerror}}"


def call(path):
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(path)


class Looks(DPSGD):
    async def run(self, node):
        own = Path(TOLD["run"]) / "nodes" / f"node.{{node.rank}}"
        other = Path(TOLD["run"]) / "nodes" / f"node.{{1 - node.rank}}"
        found = {{
            "namespaces": {{kind: os.stat(f"/proc/self/ns/{{kind}}").st_ino for kind in TOLD["kinds"]}},
            "root": sorted(os.listdir("/")),
            "processes": [int(each) for each in os.listdir("/proc") if each.isdecimal()],
            "pid": os.getpid(),
            "uid": os.getuid(),
            "groups": os.getgroups(),
            "tmp": os.listdir("/tmp"),
            "nodes": os.listdir(Path(TOLD["run"]) / "nodes"),
            "results": os.listdir(Path(TOLD["run"]).parent),
            "sockets": attempt(lambda: call(TOLD["socket"])),
            "secret": attempt(lambda: Path(TOLD["secret"]).read_text()),
            "others": attempt(lambda: (other / "journal.jsonl").read_text()),
            "beside": attempt(lambda: Path(TOLD["beside"]).read_text()),
            "write code": attempt(lambda: Path(TOLD["beside"]).write_text("changed")),
            "write package": attempt(lambda: Path(os.__file__).with_name("new.py").write_text("")),
            "write root": attempt(lambda: Path("/new").write_text("")),
            "write plan": attempt(lambda: (own / "plan.json").write_text("")),
            "write own": attempt(lambda: (own / "mine.txt").write_text("mine")),
            "write tmp": attempt(lambda: Path("/tmp/mine.txt").write_text("mine")),
            "addresses": [attempt(lambda: socket.gethostbyname(f"node.{{rank}}")) for rank in range(2)],
            "token": os.environ.get("SOMEBODYS_TOKEN"),
            "signal": attempt(lambda: os.kill(TOLD["pid"], 0)),
        }}
        node.note("found", json.dumps(found))
        subprocess.Popen(["sleep", "90"], start_new_session=True, env={{}})
        if os.fork() == 0:
            os.setsid()
            os.execve(sys.executable, [sys.executable, "-c", TOLD["sleeps"]], {{}})
        await super().run(node)
"""
KINDS = ("user", "net", "mnt", "pid", "ipc")


@dataclass
class Looked:
    """A run in which both learners have looked around."""

    directory: RunDirectory
    found: list[dict[str, object]]
    sleeps: str
    beside: Path
    was_called: bool


@pytest.fixture(scope="module", params=[pytest.param("fabric", marks=needs_network), "none"])
def looked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Looked:
    folder = tmp_path_factory.mktemp("apart")
    code, elsewhere = folder / "code", folder / "elsewhere"
    code.mkdir()
    elsewhere.mkdir()
    (folder / "results" / "another" / "nodes").mkdir(parents=True)
    beside, secret, door = code / "beside.txt", elsewhere / "secret.txt", elsewhere / "door.sock"
    beside.write_text("beside")
    secret.write_text("secret")
    secret.chmod(0o644)
    sleeps = f"import time; time.sleep({90 + time.time() % 1})"
    told = {
        "run": str((folder / "results" / "run").resolve()),
        "socket": str(door),
        "secret": str(secret),
        "beside": str(beside),
        "pid": os.getpid(),
        "kinds": KINDS,
        "sleeps": sleeps,
    }
    source = code / "looks.py"
    source.write_text(LOOKS.format(told=json.dumps(told)))
    os.environ["SOMEBODYS_TOKEN"] = "none of its business"  # noqa: S105
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(door))
        door.chmod(0o777)
        listener.listen()
        listener.setblocking(False)
        plan = plan_of(star(2), algorithm={"name": f"{source}:Looks"}, stop={"rounds": 1})
        directory, outcome = run(plan, folder / "results", request.param)
        assert outcome.finished == 2, outcome
        try:
            listener.accept()[0].close()
            was_called = True
        except BlockingIOError:
            was_called = False
    found = [
        json.loads(each.detail)
        for name in ("node.0", "node.1")
        for each in records(directory, name)
        if isinstance(each, Event) and each.what == "found"
    ]
    assert len(found) == 2
    return Looked(directory, found, sleeps, beside, was_called)


def test_every_node_has_namespaces_of_its_own(looked: Looked) -> None:
    ours = {kind: os.stat(f"/proc/self/ns/{kind}").st_ino for kind in KINDS}
    first, second = (each["namespaces"] for each in looked.found)
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    shared = {kind for kind in KINDS if len({ours[kind], first[kind], second[kind]}) < 3}
    has_network = json.loads((looked.directory.path / "plan.json").read_text())["engine"] == "fabric"
    assert shared == (set() if has_network else {"net"})


def test_it_sees_no_process_but_its_own(looked: Looked) -> None:
    for each in looked.found:
        assert each["pid"] == 1
        assert each["processes"] == [1]
        assert each["signal"] == "denied: No such process"


def test_it_sees_the_files_that_it_needs_and_no_others(looked: Looked) -> None:
    for rank, each in enumerate(looked.found):
        root = each["root"]
        assert isinstance(root, list)
        assert not {"run", "var", "home", "root", "mnt", "srv", "boot", "media"} & set(root) - {
            Path(str(looked.directory.path.resolve())).parts[1],
            *(Path(path).resolve().parts[1] for path in (sys.prefix, sys.base_prefix, *sys.path) if path),
        }
        assert each["nodes"] == [f"node.{rank}"]
        assert each["results"] == ["run"]
        assert {each["secret"], each["others"]} == {"denied: No such file or directory"}
        assert each["beside"] == "'beside'"
        way = set(looked.directory.path.resolve().parts)
        assert not {name for name in each["tmp"] if not name.startswith("testbed")} - way  # type: ignore[attr-defined]


def test_it_writes_to_its_own_folders_only(looked: Looked) -> None:
    for each in looked.found:
        denied = {name: said for name, said in each.items() if name.startswith("write ")}
        assert denied.pop("write own") == denied.pop("write tmp") == "4"
        assert set(denied.values()) == {"denied: Read-only file system"}, denied
    assert looked.beside.read_text() == "beside"


def test_it_reaches_no_socket_of_this_machine(looked: Looked) -> None:
    assert not looked.was_called
    assert {str(each["sockets"]) for each in looked.found} == {"denied: No such file or directory"}


def test_what_it_has_started_ends_with_it(looked: Looked) -> None:
    """Though it has its own session, and nothing of the run in its environment."""
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                line = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            assert looked.sleeps.encode() not in line


def test_it_is_not_given_tokens(looked: Looked) -> None:
    assert [each["token"] for each in looked.found] == [None, None]


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_no_socket_of_control_is_seen_wherever_sockets_lie(
    umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TMPDIR in a folder that the learner sees, since its code lies there; and where others may see nothing."""
    before = os.umask(umask)
    try:
        (tmp_path / "code" / "t").mkdir(parents=True)
        source = tmp_path / "code" / "mine.py"
        source.write_text(
            "import os, pathlib\nfrom testbed.node.algorithms.dpsgd import DPSGD\n\n\nclass Mine(DPSGD):\n"
            "    async def run(self, node):\n        t = pathlib.Path(__file__).with_name('t')\n"
            "        found = [path.relative_to(t).parts[1:] for path in t.rglob('*')]\n"
            "        node.note('found', repr(sorted(each for each in found if each)))\n"
            "        await super().run(node)\n"
        )
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "code" / "t"))
        (tmp_path / "code" / "t" / "testbed-other").mkdir()
        (tmp_path / "code" / "t" / "testbed-other" / "commands.sock").touch()
        plan = plan_of(star(2), algorithm={"name": f"{source}:Mine"}, stop={"rounds": 1})
        directory, outcome = run(plan, tmp_path / "results", "none")
    finally:
        os.umask(before)
    assert outcome.finished == 2, outcome
    (found,) = [each for each in records(directory, "node.1") if isinstance(each, Event) and each.what == "found"]
    there = {each[-1] for each in ast.literal_eval(found.detail)}
    assert there <= {
        "control.sock",
        "nodes",
        "1",
        "slots",
        "bell",
        *(f"{kind}-{n}" for kind in ("slot", "queue") for n in range(99)),
    }
    assert "('nodes', '1')" in found.detail
    assert "'0'" not in found.detail


def test_it_finds_the_others_by_name(looked: Looked) -> None:
    plan = read_plan(looked.directory.plan)
    hosts = (looked.directory.path / "runtime" / "hosts").read_text()
    for each in looked.found:
        found = [address.strip("'") for address in each["addresses"]]  # type: ignore[attr-defined]
        assert "".join(f"{address} node.{rank}\n" for rank, address in enumerate(found)) in hosts
        if plan.engine == "fabric":
            assert found == [node.address for node in plan.nodes]


@pytest.mark.skipif(not sandbox_support().is_another, reason=f"not root, or {sandbox_support().still_root}")
def test_started_by_root_it_is_an_unused_user_whose_results_are_roots(looked: Looked) -> None:
    for rank, each in enumerate(looked.found):
        assert each["uid"] in LEARNERS
        assert set(each["groups"]) <= {each["uid"]}  # type: ignore[call-overload]
        folder = looked.directory.node(f"node.{rank}").path
        assert {path.lstat().st_uid for path in (folder, *folder.iterdir())} == {0}
        assert (folder / "mine.txt").read_text() == "mine"


@pytest.mark.skipif(not sandbox_support().is_another, reason=f"not root, or {sandbox_support().still_root}")
def test_code_that_is_somebody_elses_and_closed_to_others_can_be_learned_with(tmp_path: Path) -> None:
    """As with `sudo testbed deploy`, in a folder of the calling user."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    source = folder / "mine.py"
    source.write_text(
        "from pathlib import Path\nfrom testbed.node.algorithms.dpsgd import DPSGD\n\n\nclass Mine(DPSGD):\n"
        "    async def run(self, node):\n        node.note('read', Path(__file__).with_name('data.txt').read_text())\n"
        "        await super().run(node)\n"
    )
    (folder / "data.txt").write_text("theirs")
    for path, mode in ((folder, 0o700), (source, 0o600), (folder / "data.txt", 0o600)):
        os.chown(path, 1234, 1234)
        path.chmod(mode)
    plan = plan_of(star(2), algorithm={"name": f"{source}:Mine"}, stop={"rounds": 1})
    directory, outcome = run(plan, tmp_path / "results", "none")
    assert outcome.finished == 2, outcome
    assert [each.detail for each in records(directory, "node.0") if isinstance(each, Event) and each.what == "read"]
