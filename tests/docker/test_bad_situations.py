"""Whatever is wrong with an Engine, a machine or an image: a clear sentence, the right exit code, and nothing left."""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from docker.errors import ImageNotFound

from testbed.cli.main import main
from testbed.engines.privileges import User
from testbed.errors import CouldNotStart, PreflightRefused
from testbed.image import build as image_build
from testbed.image.code import missing_files
from testbed.image.engine_client import DockerEngineOutage, connected, engine_address, is_outage, what_helps
from testbed.image.facts import image_id
from testbed.plan.model import RunPlan
from testbed.rundir import RunDirectory
from testbed.runtimes.containers.container_paths import ContainerPaths
from testbed.runtimes.containers.reachability import PROBE_FIRST, PROBE_SOCKET, Unreached, probe
from testbed.runtimes.docker import preflight, start
from testbed.runtimes.docker import runtime as docker_runtime
from testbed.runtimes.docker.container_set import ContainerSet, EndedContainer
from testbed.runtimes.docker.containers import CONTROL, FABRIC, PART_LABEL, Container, containers_of, name_of
from testbed.runtimes.docker.runtime import DockerRuntime
from testbed.runtimes.docker.start import listen_for_first_container
from testbed.runtimes.docker.verdict import why_not
from tests.docker.ordinary_user import Ordinary
from tests.docker.runs import command, containers, deploy, deploy_words, deploying, environment, summary, until
from tests.image.engine import EXAMPLE, need_engine
from tests.image.fake_engine import WayToEngine, fake_engine, way_to

DONE = (0, 7)
only_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can make such a place here")
TOPOLOGY = "services: {a: {replicas: 3}}\nbridges: [r]\nlinks: [{from: a, to: r, latency: 1ms, rate: 10Mbps}]\n"
HASTY = """
import sys
from testbed.cli.main import main
from testbed.image import engine_client

engine_client._RETURN_S = float(sys.argv.pop(1))
sys.argv = ["testbed", *sys.argv[1:]]
main()
"""
"""The same program, which waits less for an Engine."""


def deploy_here(folder: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> Result:
    """In this process, as far as it comes before anything is started."""
    (folder / "t.yaml").write_text(TOPOLOGY)
    monkeypatch.chdir(folder)
    fixed = ("--data", "digits", "--rounds", "2", "--runtime", "docker", "--run-id", "r")
    return CliRunner().invoke(main, ["deploy", "t.yaml", *fixed, *more])


def left_in(folder: Path) -> list[str]:
    """Of a run, what is no result."""
    run = folder / "results" / "r"
    return sorted(
        str(path.relative_to(run))
        for path in run.rglob("*")
        if path.is_socket() or path.name in ("sockets", "processes.json", "outcome.json")
    )


# -- before anything is started ----------------------------------------------------------------------------------------


def test_no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'nowhere'}")
    began_s = time.monotonic()
    result = deploy_here(tmp_path, monkeypatch)
    assert result.exit_code == 4, result.output
    assert f"Error: no Docker Engine answers at unix://{tmp_path / 'nowhere'}\n  start it, or" in result.output
    assert "preparing" not in result.output, "nothing is measured for a run that cannot be"
    assert time.monotonic() - began_s < 60
    assert not (tmp_path / "results").exists()


def test_no_permission_to_use_its_socket(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="tbt-") as folder:
        user, path = Ordinary(Path(folder)), Path(folder) / "e"
        with fake_engine(path) as engine:
            path.chmod(0)
            monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
            ended = user.did(*deploy_words(user.folder, image)[3:])
            assert engine.asked == []
    assert ended.returncode == 4, ended.stderr
    assert f"Error: no permission to use the Docker Engine at unix://{path}\n" in ended.stderr
    assert "usermod -aG docker $USER" in ended.stderr


def test_no_image_nor_all_packages_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_engine()
    monkeypatch.setattr(image_build, "request_at_hand", lambda *_: None)
    result = deploy_here(tmp_path, monkeypatch, "--image", "testbed:nobody-has-built-it")
    assert result.exit_code == 4, result.output
    assert "Error: there is no image testbed:nobody-has-built-it\n" in result.output
    assert "build it: testbed build --tag testbed:nobody-has-built-it" in result.output
    assert not (tmp_path / "results").exists()


@pytest.mark.usefixtures("image")
def test_an_image_is_built_where_all_packages_for_it_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tag = f"testbed:test-made-{os.getpid()}"
    begun: list[RunPlan] = []
    monkeypatch.setattr(DockerRuntime, "run", lambda _, plan, *__: begun.append(plan))
    try:
        mistyped = deploy_here(tmp_path, monkeypatch, "--image", tag)
        assert mistyped.exit_code == 4, "an image that is named explicitly is not built by deploy"
        assert f"there is no image {tag}" in mistyped.output
        monkeypatch.setattr(docker_runtime, "DEFAULT_TAG", tag)
        dry = deploy_here(tmp_path, monkeypatch, "--dry-run")
        assert "building" not in dry.output
        assert f"the run would build the image {tag} first" in dry.output
        result = deploy_here(tmp_path, monkeypatch)
        assert result.exit_code == 0, result.output
        assert result.output.count("building") == 1
        assert f"building the image {tag}, since all packages for it are here\n" in result.output
        assert begun[0].versions["image"] == image_id(tag)
        assert set(begun[0].versions) == {"image", "numpy", "python", "testbed", "torch"}
    finally:
        with connected() as engine, suppress(ImageNotFound):
            engine.api.remove_image(tag)


def test_too_little_memory(tmp_path: Path, image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough for control and two learners, and one byte less than for three."""
    monkeypatch.setattr(preflight, "models_bytes", lambda *_: 0)
    monkeypatch.setattr(preflight, "available_bytes", lambda: 4 * 185_000_000 - 1)
    result = deploy_here(tmp_path, monkeypatch, "--image", image)
    words = "3 containers need about 740 MB, 185 MB each and 185 MB for control, and 740 MB are free: 2 fit"
    assert result.exit_code == 4, result.output
    assert f"Error: this machine has too little memory: {words}\n" in result.output
    assert "take fewer nodes, or --runtime local" in result.output
    assert not (tmp_path / "results").exists()
    dry = deploy_here(tmp_path, monkeypatch, "--image", image, "--dry-run")
    assert (dry.exit_code, words in dry.output) == (4, True)
    begun: list[str] = []
    monkeypatch.setattr(DockerRuntime, "run", lambda _, plan, *__: begun.append(plan.run_id))
    forced = deploy_here(tmp_path, monkeypatch, "--image", image, "--force")
    assert (begun, f"warning: {words}" in forced.output) == (["r"], True)
    monkeypatch.setattr(preflight, "available_bytes", lambda: 4 * 185_000_000)
    assert deploy_here(tmp_path, monkeypatch, "--image", image, "--dry-run").exit_code == 0
    enough = deploy_here(tmp_path, monkeypatch, "--image", image, "--results", "other")
    assert (begun, "memory" in enough.output, "740 MB are free: 3 fit\n" in enough.output) == (["r", "r"], False, True)


@only_root
def test_results_that_the_engine_cannot_see(tmp_path: Path, image: str) -> None:
    """They are in a mount namespace of the command's own, as they would be in a virtual machine."""
    (tmp_path / "results").mkdir()
    mounted = 'mount -t tmpfs tmpfs "$1"; shift; exec "$@"'
    apart = ["unshare", "--mount", "sh", "-c", mounted, "sh", str(tmp_path / "results")]
    ended = subprocess.run(
        [*apart, *deploy_words(tmp_path, image, nodes=2)],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert ended.returncode == 4, ended.stderr
    assert re.search(r"^Error: the Docker Engine cannot mount the folder of results: .*results/r", ended.stderr, re.M)
    assert "give --results a folder of the machine that the Docker Engine runs on" in ended.stderr
    assert "testbed render --target compose" in ended.stderr
    assert containers(tmp_path) == []


def test_a_name_that_is_in_use(tmp_path: Path, image: str) -> None:
    """By a container that nothing tells whose it is: it stays, and everything else goes."""
    with connected() as engine:
        taken = name_of(RunDirectory(tmp_path / "results" / "r"), "r", "a.1")
        other = engine.api.create_container(image, name=taken, labels={"testbed.run": "", "x": "y"})["Id"]
        try:
            ended = deploy(tmp_path, image)
            assert ended.returncode == 5, ended.stderr
            assert f"Error: the name {taken} is in use: there is a container that has it" in ended.stderr
            assert "give another --run-id" in ended.stderr
            assert containers(tmp_path) == []
            assert left_in(tmp_path) == []
            assert engine.api.inspect_container(other)["State"]["Status"] == "created"
        finally:
            engine.api.remove_container(other, force=True)


# -- sockets that reach no process -------------------------------------------------------------------------------------


def test_sockets_that_lead_nowhere(tmp_path: Path, image: str) -> None:
    """The folder is there, but no process listens, as with files shared with a virtual machine."""
    for folder in ("sockets", "run"):
        (tmp_path / folder).mkdir()
    (tmp_path / "sockets" / PROBE_SOCKET).touch()
    (tmp_path / "run" / "plan.json").touch()
    tmp_path.chmod(0o755)
    with connected() as engine:
        binds = [f"{tmp_path / folder}:/testbed/{folder}" for folder in ("sockets", "run")]
        host = engine.api.create_host_config(network_mode="none", binds=binds)
        id_ = engine.api.create_container(
            image, [CONTROL], environment={PROBE_FIRST: "1"}, labels={PART_LABEL: CONTROL}, host_config=host
        )["Id"]
        try:
            engine.api.start(id_)
            engine.api.wait(id_, timeout=60)
            ended = ContainerSet(engine, image).ended(id_)
        finally:
            engine.api.remove_container(id_, force=True)
    found = why_not(RunDirectory(tmp_path), [ended])
    assert isinstance(found, Unreached)
    assert found.message == "containers cannot reach sockets in the folder of results: Connection refused"
    assert "--sockets volume" in found.hint
    assert "testbed render --target compose" in found.hint


def test_a_door_tells_who_has_knocked(tmp_path: Path) -> None:
    inside = ContainerPaths(tmp_path)
    inside.sockets.mkdir()
    with pytest.raises(PreflightRefused, match="do not see what is in the folder") as refused:
        probe(inside)
    assert not isinstance(refused.value, Unreached), "not even files are shared"
    inside.run.path.mkdir()
    inside.run.plan.touch()
    with pytest.raises(Unreached, match="No such file"):
        probe(inside)
    with listen_for_first_container(inside.sockets) as listener:
        probe(inside)
        assert listener.await_probe(lambda: True) == os.getpid()
        assert listener.await_probe(lambda: False) is None
        with pytest.raises(PreflightRefused, match=r"has not reached this command within 0\.3 s"):
            listener.await_probe(lambda: True, timeout_s=0.3)
    assert list(inside.sockets.iterdir()) == []


def test_where_there_can_be_no_sockets_at_all(tmp_path: Path) -> None:
    with pytest.raises(Unreached, match="there can be no sockets"), listen_for_first_container(tmp_path / "none"):
        pass


@pytest.mark.soaked
@only_root
def test_processes_that_cannot_be_seen_from_here(tmp_path: Path, image: str) -> None:
    apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    ended = subprocess.run(
        [*apart, *deploy_words(tmp_path, image, nodes=2, rounds=2)],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert ended.returncode in DONE, ended.stderr
    assert "warning: the processes of containers cannot be seen from here" in ended.stderr
    assert "expected to work, not tested" in ended.stderr
    assert summary(tmp_path)["finished"] == 2


@pytest.mark.parametrize(
    ("said", "message", "hint"),
    [
        ("write /var/x: no space left on device", "no space left where the Docker Engine keeps", "docker system df"),
        ('invalid mount config for type "bind": bind source path does not exist: /a', "cannot mount", "--results"),
        ("Mounts denied: \nThe path /a is not shared from the host", "cannot mount the folder", "Docker Desktop"),
        ('error gathering device information "/dev/net/tun": no such file', "has no /dev/net/tun", "modprobe tun"),
        ("quite another thing\nand more", "the Docker Engine says: quite another thing", ""),
    ],
)
def test_what_helps_where_the_engine_says_no(said: str, message: str, hint: str) -> None:
    found = what_helps(said)
    assert message in found[0]
    assert hint in found[1]
    assert bool(hint) is bool(found[1])
    assert "\n" not in found[0]


# -- code that is not in the image -------------------------------------------------------------------------------------

HUNGRY = """
from testbed.node.algorithm import Algorithm


class Hungry(Algorithm):
    async def run(self, node):
        await node.train()
        if node.rank == 1:
            kept = []
            while True:
                kept.append(bytearray(b"x" * 2**24))
        while True:
            await node.train()
"""


@pytest.fixture(scope="module")
def hungry(image: str) -> Iterator[str]:
    """The tag of an image that has one more algorithm, by a line in a Dockerfile."""
    tag = f"testbed:test-hungry-{os.getpid()}"
    context = io.BytesIO()
    lines = f"FROM {image}\nCOPY hungry.py /opt/testbed/algorithms/\n"
    with tarfile.open(fileobj=context, mode="w") as archive:
        for name, text in (("Dockerfile", lines), ("hungry.py", HUNGRY)):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text), 0o644
            archive.addfile(member, io.BytesIO(text.encode()))
    context.seek(0)
    with connected() as engine:
        said = list(engine.api.build(fileobj=context, custom_context=True, tag=tag, rm=True, decode=True))
        assert any("Successfully tagged" in str(each.get("stream")) for each in said), said
        try:
            yield tag
        finally:
            engine.api.remove_image(tag)


def test_files_are_looked_for_in_the_image_itself(image: str, hungry: str, tmp_path: Path) -> None:
    def digest(data: bytes) -> str:
        return hashlib.sha256(data).hexdigest()

    there = {str(EXAMPLE / "fresh_gossip.py"): digest((EXAMPLE / "fresh_gossip.py").read_bytes())}
    by_a_line = {str(tmp_path / "hungry.py"): digest(HUNGRY.encode())}
    with connected() as engine:
        before = len(engine.api.containers(all=True, filters={"ancestor": hungry}))
        assert missing_files(engine, image, there) == []
        assert missing_files(engine, hungry, there | by_a_line) == []
        (missing,) = missing_files(engine, image, there | by_a_line)
        assert (missing.file, missing.is_other) == (str(tmp_path / "hungry.py"), False)
        (missing,) = missing_files(engine, hungry, {"hungry.py": digest(b"something else")})
        assert (missing.file, missing.is_other) == ("hungry.py", True)
        (missing,) = missing_files(engine, image, {"fresh_gossip.py": digest(b"something else")})
        assert missing.is_other
        assert len(engine.api.containers(all=True, filters={"ancestor": hungry})) == before


def test_code_that_is_not_in_the_image_is_refused(tmp_path: Path, image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hungry.py").write_text(HUNGRY)
    result = deploy_here(tmp_path, monkeypatch, "--algorithm", "hungry.py:Hungry", "--image", image)
    assert result.exit_code == 4, result.output
    assert f"Error: hungry.py is not in the image {image}\n" in result.output
    assert f"build it in: testbed build --tag {image} --algorithm hungry.py (it then" in result.output
    text = (EXAMPLE / "fresh_gossip.py").read_text()
    (tmp_path / "fresh_gossip.py").write_text(f"{text}\n# changed\n")
    result = deploy_here(tmp_path, monkeypatch, "--algorithm", "fresh_gossip.py:FreshGossip", "--image", image)
    assert result.exit_code == 4, result.output
    assert f"fresh_gossip.py is not as it was when the image {image} was built" in result.output
    assert not (tmp_path / "results").exists()


# -- while it goes on --------------------------------------------------------------------------------------------------


def test_a_learner_that_eats_more_than_it_may(tmp_path: Path, hungry: str) -> None:
    (tmp_path / "hungry.py").write_text(HUNGRY)
    ended = deploy(tmp_path, hungry, "--algorithm", "hungry.py:Hungry", rounds=5000)
    assert ended.returncode == 6, ended.stderr
    assert re.search(
        r"^Error: node a\.1 failed: its process was over before its work: killed by SIGKILL; "
        r"its container ended with exit code 137, out of memory \(it may use 512MiB\)",
        ended.stderr,
        re.MULTILINE,
    ), ended.stderr
    assert containers(tmp_path) == []
    assert left_in(tmp_path) == []


def test_a_fabric_that_is_killed(tmp_path: Path, image: str) -> None:
    with deploying(tmp_path, image) as running:
        until(lambda: has_trained(tmp_path))
        with connected() as engine:
            engine.api.kill(part(tmp_path, FABRIC), "SIGKILL")
        _, said = running.communicate(timeout=120)
    assert running.returncode == 6, said
    gone = "the fabric, which carries the packets, is gone; its container ended with exit code 137"
    assert re.search(rf"^Error: {gone}(; its last output: .*)?$", said, re.MULTILINE), said
    assert "/testbed/run" not in said, "a path in a container is of no use"
    assert (summary(tmp_path)["health"], containers(tmp_path), left_in(tmp_path)) == ("broken", [], [])


def test_a_fabric_that_dies_at_its_start(tmp_path: Path, image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control would wait for it for two minutes."""

    def without_configuration(*words: Any) -> list[Container]:
        made = containers_of(*words)
        return [replace(each, mounts=each.mounts[:-1]) if each.part == FABRIC else each for each in made]

    monkeypatch.setattr(start, "containers_of", without_configuration)
    began_s = time.monotonic()
    result = deploy_here(tmp_path, monkeypatch, "--image", image)
    assert time.monotonic() - began_s < 60
    assert result.exit_code == 5, result.output
    assert re.search(
        r"^Error: the fabric's container ended with exit code \d+; its last output: .+", result.output, re.M
    )
    assert (containers(tmp_path), left_in(tmp_path)) == ([], [])


@contextmanager
def small(folder: Path, size: str) -> Iterator[None]:
    """A volume of so many bytes, which the Engine sees, too."""
    folder.mkdir()
    subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["/bin/umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> None:
    """To the last byte."""
    with (folder / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


@only_root
@pytest.mark.parametrize("size", ["8k", pytest.param("40k", marks=pytest.mark.soaked)])
def test_a_disk_that_is_full_from_the_beginning(size: str, tmp_path: Path, image: str) -> None:
    """There is room for a part of the plan, or for that and more: for the folders, and how far it gets depends."""
    with small(tmp_path / "results", size):
        ended = deploy(tmp_path, image)
        assert ended.returncode in (2, 5, 6), ended.stderr
        assert re.search(r"^Error: .*No space left on device", ended.stderr, re.MULTILINE), ended.stderr
        assert "Traceback" not in ended.stderr
        assert containers(tmp_path) == []
        assert left_in(tmp_path) == []


@only_root
def test_a_disk_that_gets_full(tmp_path: Path, image: str) -> None:
    with small(tmp_path / "results", "4M"):
        with deploying(tmp_path, image) as running:
            until(lambda: (tmp_path / "results/r/nodes/a.0/journal.jsonl").exists())
            fill(tmp_path / "results")
            _, said = running.communicate(timeout=120)
        assert running.returncode == 6, said
        assert re.search(r"^Error: .*(No space left on device|the disk is full)", said, re.MULTILINE), said
        assert "Traceback" not in said
        assert "/testbed/run" not in said, "files are called as they are called here"
        assert containers(tmp_path) == []
        assert left_in(tmp_path) == []


def test_the_engines_own_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'e'}")
    with fake_engine(tmp_path / "e") as engine, connected() as client:
        engine.answers["/containers/create"] = (500, {"message": "mkdir /var/x: no space left on device"})
        with pytest.raises(CouldNotStart, match="no space left where the Docker Engine keeps") as caught:
            ContainerSet(client, "image").start([a_container()])
    assert "docker system df" in caught.value.hint


def a_container() -> Container:
    return Container("name", CONTROL, User(1, 1), (), {}, 1, 2)


# -- an Engine that goes away ------------------------------------------------------------------------------------------


@pytest.fixture
def way(image: str) -> Iterator[WayToEngine]:  # noqa: ARG001 - there is an Engine, then
    address = engine_address()
    if not address.startswith("unix://"):
        pytest.skip("the Engine has no socket of this machine")
    with way_to(address) as made:
        yield made


@contextmanager
def deploying_by(
    way: WayToEngine, folder: Path, image: str, rounds: int, away_s: float = 2.0
) -> Iterator[subprocess.Popen[str]]:
    arguments = deploy_words(folder, image, nodes=2, rounds=rounds)
    with subprocess.Popen(
        [sys.executable, "-c", HASTY, str(away_s), *arguments[3:]],
        cwd=folder, stderr=subprocess.PIPE, text=True, env={**environment(), "DOCKER_HOST": way.address},
    ) as process:  # fmt: skip
        try:
            until(lambda: has_trained(folder) or process.poll() is not None)
            yield process
        finally:
            process.kill()


def has_trained(folder: Path) -> bool:
    journal = folder / "results" / "r" / "nodes" / "a.0" / "journal.jsonl"
    return journal.exists() and '"type":"round"' in journal.read_text()


def part(folder: Path, wanted: str) -> str:
    return next(str(each["Id"]) for each in containers(folder) if each["Labels"].get(PART_LABEL) == wanted)


def test_an_engine_that_comes_back_is_waited_for(tmp_path: Path, image: str, way: WayToEngine) -> None:
    """By an address that is no socket of this machine's: what counts is whether containers can be reached."""
    with deploying_by(way, tmp_path, image, rounds=70) as running:
        way.close()
        time.sleep(3.0)  # longer than it is waited for where nothing is seen of the run
        way.open()
        _, said = running.communicate(timeout=120)
    assert running.returncode in DONE, said
    assert said.count("warning: the Docker Engine does not answer; waiting for it") == 1
    assert (summary(tmp_path)["reason"], summary(tmp_path)["finished"]) == ("finished", 2)
    assert containers(tmp_path) == []
    assert left_in(tmp_path) == []


def test_an_engine_that_does_not_come_back(tmp_path: Path, image: str, way: WayToEngine) -> None:
    with deploying_by(way, tmp_path, image, rounds=20) as running:
        way.close()
        _, said = running.communicate(timeout=120)
        assert running.returncode == 5, said
        assert f"Error: the Docker Engine at {way.address} does not answer any more\n" in said
        assert f"`testbed destroy {tmp_path / 'results' / 'r'}` removes them once it answers" in said
        assert "Traceback" not in said
    assert len(containers(tmp_path)) == 4
    assert summary(tmp_path)["reason"] == "finished", "the run needs no watcher"
    gone = command(tmp_path, "destroy", "r")
    assert gone.returncode == 0, gone.stderr
    assert containers(tmp_path) == []
    assert left_in(tmp_path) == []


@pytest.mark.soaked
def test_an_engine_that_was_restarted_and_took_the_containers_along(
    tmp_path: Path, image: str, way: WayToEngine
) -> None:
    with deploying_by(way, tmp_path, image, rounds=5000, away_s=20.0) as running:
        control = part(tmp_path, CONTROL)
        way.close()
        with connected() as engine:
            engine.api.kill(control, "SIGTERM")
            engine.api.wait(control, timeout=60)
        time.sleep(2.0)  # until the periodic check has found it away
        way.open()
        _, said = running.communicate(timeout=120)
    assert running.returncode == 5, said
    assert "Error: the Docker Engine was restarted during the run, and has ended it\n" in said
    assert "live-restore" in said
    assert containers(tmp_path) == []
    assert left_in(tmp_path) == []


def test_an_outage_is_waited_for_only_so_long_and_only_for_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    import requests
    from docker.errors import APIError

    monkeypatch.setattr("testbed.image.engine_client._RETURN_S", 0.6)
    said: list[str] = []
    asked: list[int] = []

    def question(problem: Exception, until: int) -> str:
        asked.append(1)
        if len(asked) < until:
            raise problem
        return "answer"

    outage = DockerEngineOutage(said.append)
    assert outage.ask(lambda: question(requests.ConnectionError(), 2)) == "answer"
    assert (outage.was_away, len(said), len(asked)) == (True, 1, 2)
    asked.clear()
    assert outage.ask(lambda: question(requests.ConnectionError(), 8), lambda: True) == "answer"
    asked.clear()
    with pytest.raises(requests.ConnectionError):
        outage.ask(lambda: question(requests.ConnectionError(), 99))
    assert 2 <= len(asked) < 8
    asked.clear()
    with pytest.raises(requests.ConnectionError):
        outage.ask(lambda: question(requests.ConnectionError(), 99))
    assert len(asked) == 1, "it is known not to come back"
    with pytest.raises(APIError):
        DockerEngineOutage(said.append).ask(lambda: question(APIError("no"), 99))
    assert not is_outage(APIError("no"))


# -- control's last words ----------------------------------------------------------------------------------------------


ENDED = "control's container ended with exit code"


@pytest.mark.parametrize(
    ("code", "said", "kind", "message", "hint"),
    [
        (2, "round 1\nError: no room in /testbed/run/events.jsonl", "UsageProblem", "no room in {}/events.jsonl", ""),
        (4, "Error: no device\ndo that", "PreflightRefused", "no device", "do that"),
        (5, "Error: one\nError: other", "CouldNotStart", "other", ""),
        (137, "round 1\nround 2", "CouldNotStart", f"{ENDED} 137, out of memory: round 2", ""),
        (1, "", "CouldNotStart", f"{ENDED} 1, out of memory: broken", ""),
    ],
)  # fmt: skip
def test_what_control_has_said_last(tmp_path: Path, code: int, said: str, kind: str, message: str, hint: str) -> None:
    ended = EndedContainer("c", CONTROL, None, code, out_of_memory=code in (1, 137), error="broken", said=said)
    found = why_not(RunDirectory(tmp_path), [ended])
    assert (type(found).__name__, found.message, found.hint) == (kind, message.format(tmp_path), hint)


CONFIGURATION = "the fabric's container ended with exit code 3; its last output: no configuration"


@pytest.mark.parametrize(
    ("code", "said", "message"),
    [
        (0, "", CONFIGURATION),
        (5, "Error: it has not come", f"it has not come; {CONFIGURATION}"),
        (137, "round 1", f"{ENDED} 137: round 1; {CONFIGURATION}"),
    ],
)
def test_what_became_of_the_fabric_is_said_too(tmp_path: Path, code: int, said: str, message: str) -> None:
    control = EndedContainer("c", CONTROL, None, code, out_of_memory=False, error="", said=said)
    fabric = EndedContainer("f", FABRIC, None, 3, out_of_memory=False, error="", said="usage\nno configuration")
    for ended in ([control, fabric], [fabric, control]):
        found = why_not(RunDirectory(tmp_path), ended)
        assert (type(found), found.message) == (CouldNotStart, message)
