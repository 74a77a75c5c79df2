"""The image, built by a real Engine: small, closed, and with a researcher's algorithm in it."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from docker import DockerClient

from testbed import __version__
from testbed.cli.main import main
from testbed.errors import CouldNotStart, InvalidInput, PreflightRefused
from testbed.image import build as image_build
from testbed.image import facts as image_leftovers
from testbed.image.build import Built, Request, build_image, context_for
from testbed.image.context import Context
from testbed.image.engine_client import connected
from testbed.image.facts import code_in, id_of, image_id, labels_of
from testbed.image.packages import run_build, versions_in
from tests.image.engine import EXAMPLE, TAG

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]
CODE = EXAMPLE / "fresh_gossip.py"
LARGEST = 1.2e9
LOADS = (
    "from testbed.node.choose import choose_algorithm as choose\n"
    "made = choose('/home/somebody/elsewhere/fresh_gossip.py:FreshGossip', {'pushes': 2, 'fade': 0.5})\n"
    "print(type(made).__name__, made.fade)\n"
)


def python(engine: DockerClient, image: str, script: str) -> str:
    """The output of a script in a container as closed as a learner's: read-only, no network, an unprivileged user."""
    said: bytes = engine.containers.run(
        image,
        ["-c", script],
        entrypoint=["python"],
        network_mode="none",
        read_only=True,
        cap_drop=["ALL"],
        user="12345:12345",
        remove=True,
    )
    return said.decode()


def build(request: Request) -> Built:
    return build_image(request, lambda _: None, lambda _: None)


def test_the_example_loads_in_a_closed_container(image: str) -> None:
    with connected() as engine:
        assert python(engine, image, LOADS) == "FreshGossip 0.5\n"


def test_versions_are_those_of_the_constraints_and_in_the_labels(image: str) -> None:
    pinned = dict(re.findall(r"^([\w-]+)==([\w.]+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    with connected() as engine:
        labels, versions = labels_of(engine, image), versions_in(engine, image)
        running = python(engine, image, "import torch, testbed; print(torch.__version__, testbed.__version__)")
    for name in ("torch", "numpy", "scipy", "msgspec", "pydantic"):
        assert versions[name].partition("+")[0] == pinned[name], name
    assert "pip" not in versions
    assert running.split() == [labels["testbed.torch"], __version__]
    assert labels["testbed.torch"] == versions["torch"]
    assert labels["testbed.python"] == versions["python"]
    assert labels["org.opencontainers.image.version"] == __version__
    assert labels["org.opencontainers.image.title"]
    assert labels["org.opencontainers.image.base.name"]


def code_of(image: str) -> dict[str, str]:
    with connected() as engine:
        return code_in(labels_of(engine, image))


def test_the_image_says_which_code_is_in_it(image: str) -> None:
    assert code_of(image)["fresh_gossip.py"] == hashlib.sha256(CODE.read_bytes()).hexdigest()
    assert image_id(TAG) == image
    with pytest.raises(PreflightRefused, match="there is no image testbed:nobody-made-this"):
        image_id("testbed:nobody-made-this")


def test_its_size(image: str) -> None:
    with connected() as engine:
        size = engine.images.get(image).attrs["Size"]
    assert 0.3e9 < size <= LARGEST


LOOKS = """
import json, os, shutil, stat
writable, left = [], []
for folder, folders, files in os.walk("/"):
    if folder in ("/proc", "/sys", "/dev"):
        folders.clear()
        continue
    for name in [*folders, *files]:
        path = os.path.join(folder, name)
        mode = os.lstat(path).st_mode
        if not stat.S_ISLNK(mode) and mode & 0o002 and not mode & stat.S_ISVTX:
            writable.append(path)
        if name in ("pip.conf", "ca.crt", "wheels", "packages") or name.endswith(".whl"):
            left.append(path)
found = [each for each in ("gcc", "cc", "make", "git") if shutil.which(each)]
print(json.dumps([writable, [each for each in left if "pip-whl" not in each and "python-wheels" not in each], found]))
"""


def test_nothing_is_world_writable_or_left_from_building(image: str) -> None:
    with connected() as engine:
        writable, left, tools = json.loads(python(engine, image, LOOKS))
        told = json.dumps(engine.images.get(image).history())
    assert writable == []
    assert [each for each in left if each.startswith(("/opt/testbed", "/packages"))] == []
    assert tools == []
    for secret in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PROXY=", "proxy=", "ca.crt", "BEGIN CERT"):
        assert secret not in told


def test_its_first_process_and_its_health_check(image: str) -> None:
    with connected() as engine:
        config = engine.images.get(image).attrs["Config"]
    assert config["Entrypoint"] == ["python", "-m", "testbed.runtimes.containers"]
    assert config["Healthcheck"]["Test"][0] == "CMD"
    assert not config.get("User"), "it gives up root itself, when its network is there"


def test_bytecode_is_there_since_nothing_can_be_written(image: str) -> None:
    script = (
        "import os, torch, testbed.node.life as life\n"
        "print([os.path.exists(each.__cached__) for each in (torch, life)])"
    )
    with connected() as engine:
        assert python(engine, image, script) == "[True, True]\n"


def layers(image: str) -> list[str]:
    with connected() as engine:
        return [str(each) for each in engine.images.get(image).attrs["RootFS"]["Layers"]]


def remove(*tags: str) -> None:
    with connected() as engine:
        for tag in tags:
            engine.api.remove_image(tag, force=True)


def test_building_again_changes_nothing_and_an_edit_only_the_last_layer(image: str, tmp_path: Path) -> None:
    tag, mine = "testbed:test-edit", tmp_path / "fresh_gossip.py"
    mine.write_bytes(CODE.read_bytes())
    try:
        same = build(Request(tag=tag, algorithms=(mine,)))
        assert same.id == image
        mine.write_text(CODE.read_text().replace("fade: float = 0.8", "fade: float = 0.25"))
        edited = build(Request(tag=tag, algorithms=(mine,)))
        assert edited.id != image
        assert layers(edited.id)[:-1] == layers(image)[:-1]
        assert code_of(tag) != code_of(image)
        with connected() as engine:
            assert python(engine, tag, LOADS.replace(", 'fade': 0.5", "")) == "FreshGossip 0.25\n"
    finally:
        remove(tag)


def is_there(image: str) -> bool:
    with connected() as engine:
        return id_of(engine, image) is not None


def test_an_image_whose_name_another_has_goes_when_nothing_needs_it(
    image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tag, mine = "testbed:test-replaced", tmp_path / "mine.py"
    mine.write_text("x = 1\n")
    first = build(Request(tag=tag, algorithms=(mine,))).id
    with connected() as engine:
        container = engine.api.create_container(first, command=["true"], network_disabled=True)["Id"]
    try:
        mine.write_text("x = 2\n")
        second = build(Request(tag=tag, algorithms=(mine,))).id
        assert is_there(first), "a container is of it"
        with connected() as engine:
            engine.api.remove_container(container)
        assert build(Request(tag=tag, algorithms=(mine,))).id == second
        assert is_there(first), "it might be one that another process is building"
        monkeypatch.setattr(image_leftovers, "_OLD_S", 0.0)
        assert build(Request(tag=tag, algorithms=(mine,))).id == second
        assert [is_there(each) for each in (first, second, image)] == [False, True, True]
        mine.write_text("x = 1\n")
        build(Request(tag=tag, algorithms=(mine,)))
        assert not is_there(second), "at once, where nothing needs it"
    finally:
        with connected() as engine:
            if engine.containers.list(all=True, filters={"id": container}):
                engine.api.remove_container(container)
        remove(tag)


def test_a_build_leaves_nothing_without_a_name(image: str, tmp_path: Path) -> None:  # noqa: ARG001 - its packages
    """Not even of the stages that the image of all packages stands for: they are not built again."""
    tag, mine = "testbed:test-nothing", tmp_path / "mine.py"
    mine.write_text("x = 3\n")
    told: list[str] = []
    with connected() as engine:
        filters = {"dangling": True, "label": "testbed.stage=packages"}
        before = set(engine.api.images(quiet=True, filters=filters))
        build_image(Request(tag=tag, algorithms=(mine,)), lambda step: told.append(step.text), lambda _: None)
        after = set(engine.api.images(quiet=True, filters=filters))
    remove(tag)
    assert after <= before
    assert not [text for text in told if "install-" in text or "FROM ${BASE}" in text]
    assert [text for text in told if text.startswith("FROM ${REQUIREMENTS}")]


def test_the_line_of_the_dockerfile_does_the_same(image: str) -> None:  # noqa: ARG001 - it is built on that
    tag = "testbed:test-line"
    line = "COPY examples/my-algorithm/fresh_gossip.py /opt/testbed/algorithms/"
    assert f"# {line}\n" in (ROOT / "Dockerfile").read_text()
    context = Context(
        {"examples/my-algorithm/fresh_gossip.py": CODE},
        {"Dockerfile": f'FROM {TAG}\nRUN ["rm", "-r", "/opt/testbed/algorithms"]\n{line}\n'.encode()},
    )
    try:
        with connected() as engine:
            run_build(engine, context, tag, lambda _: None, arguments={}, labels={}, network="none")
            assert python(engine, tag, LOADS) == "FreshGossip 0.5\n"
    finally:
        remove(tag)


def test_code_that_a_line_of_the_dockerfile_brings_is_listed_and_looked_at(
    image: str,  # noqa: ARG001 - its packages
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tag, sent = "testbed:test-block", context_for(Request())
    line = b"RUN printf 'x = 1\\n' > /opt/testbed/algorithms/mine.py\n"
    file = sent.read("Dockerfile")
    monkeypatch.setattr(image_build, "context_for", lambda _: sent.with_extra({"Dockerfile": file + line}))
    try:
        assert "mine.py" in build(Request(tag=tag)).code
        with connected() as engine:
            assert code_in(labels_of(engine, tag))["mine.py"] == hashlib.sha256(b"x = 1\n").hexdigest()
        before = image_id(tag)
        wrong = file + line.replace(b"x = 1", b"x = = 1")
        monkeypatch.setattr(image_build, "context_for", lambda _: sent.with_extra({"Dockerfile": wrong}))
        with pytest.raises(InvalidInput) as caught:
            build(Request(tag=tag))
        assert "/opt/testbed/algorithms/mine.py in the image" in str(caught.value)
        assert [each.where.line for each in caught.value.findings if each.where] == [1]
        assert image_id(tag) == before, "the name stays with what can be used"
        pip = file + b"RUN pip install nothing-at-all\n"
        monkeypatch.setattr(image_build, "context_for", lambda _: sent.with_extra({"Dockerfile": pip}))
        with pytest.raises(CouldNotStart) as refused:
            build(Request(tag=tag))
        assert "algorithms/requirements.txt" in refused.value.hint
    finally:
        remove(tag)


def test_what_pip_says_offline(image: str, tmp_path: Path) -> None:  # noqa: ARG001 - an Engine is needed
    """A folder with one wheel that is not needed: the rest is not fetched from anywhere."""
    with zipfile.ZipFile(tmp_path / "nobody-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("nobody-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: nobody\nVersion: 1\n")
    with pytest.raises(CouldNotStart) as caught:
        build(Request(tag="testbed:test-never", wheels=tmp_path))
    assert "at: RUN sh /packages/image/install-dependencies" in caught.value.message
    assert "The user requested (constraint) click==" in caught.value.message, "it is the first that is not there"
    assert "TORCH=default" in caught.value.hint
    with pytest.raises(PreflightRefused):
        image_id("testbed:test-never")


def test_the_command_prints_what_it_built(image: str) -> None:
    arguments = ["build", "--tag", TAG, "--algorithm", str(CODE), "--format", "json"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert (printed["id"], printed["image"]) == (image, TAG)
    assert "fresh_gossip.py" in printed["code"]
    assert re.search(r"step \d+/\d+: RUN python -m compileall", result.stderr)


def healthy(engine: DockerClient, image: str, first: str) -> int:
    """The exit code of the image's own check in a container with such a first process."""
    check = engine.images.get(image).attrs["Config"]["Healthcheck"]["Test"][1:]
    container = engine.containers.run(
        image, ["-c", first, "learner"], entrypoint=["sh"], network_mode="none", read_only=True, detach=True
    )
    try:
        container.exec_run(["sh", "-c", "until grep -qE 'sleep|wait|tail' /proc/[1-9]*/comm; do :; done"])
        return container.exec_run(check, user="0").exit_code or 0
    finally:
        container.remove(force=True)


def test_the_health_check_tells_a_learner_that_is_gone(image: str) -> None:
    with connected() as engine:
        assert healthy(engine, image, "sleep 60 & wait") == 0
        assert healthy(engine, image, "exec tail -f /dev/null learner 2>&-") != 0
        assert healthy(engine, image, "exec tail -f /dev/null 2>&-") == 0, (
            "control and the fabric have no child processes"
        )
