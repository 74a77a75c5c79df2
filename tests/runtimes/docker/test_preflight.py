"""What is known of containers before there are any: whether they fit, and which versions they run."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed.errors import PreflightRefused
from testbed.image.facts import PYTHON_LABEL, TORCH_LABEL, VERSION_LABEL
from testbed.image.packages import CORE_COMPILER
from testbed.plan.model import RunPlan
from testbed.runtimes import capacity, machine_speed
from testbed.runtimes.capacity import CARRIERS, Carrier
from testbed.runtimes.docker import preflight
from testbed.runtimes.docker.preflight import IMAGE, check_engine_and_image
from testbed.runtimes.docker.runtime import DockerRuntime
from testbed.runtimes.machine_speed import StepTimes
from testbed.runtimes.runtime import Checking
from tests.image.fake_engine import FakeEngine, fake_engine
from tests.runtimes.sim_runs import plan_of, star

FOLDER = Path("results/r")

LABELS = {VERSION_LABEL: "9.9", TORCH_LABEL: "2.0+cpu", PYTHON_LABEL: "3.12.1"}
ARCHIVE = "/containers/c/archive"
PROCESS_BYTES = 185_000_000


def packed(text: str) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        member = tarfile.TarInfo("versions.json")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text.encode()))
    return whole.getvalue()


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEngine]:
    """One that has the image, two processors, and much memory beside it."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'e'}")
    monkeypatch.setattr(preflight, "available_bytes", lambda: 10**12)
    with fake_engine(tmp_path / "e") as server:
        image = {"Id": "sha256:abc", "Config": {"Labels": LABELS}}
        server.answers |= {
            **{f"/images/{name}/json": (200, image) for name in ("mine:1", "sha256:abc")},
            "/containers/json": (200, []),
            "/info": (200, {"NCPU": 2}),
            "/containers/create": (201, {"Id": "c"}),
            "/containers/c": (204, ""),
            ARCHIVE: (200, packed(json.dumps({"python": "3.12.1", "torch": "2.0+cpu", "numpy": "1.9", "x": "1"}))),
        }
        yield server


def plan(topology: str = star(4), **more: object) -> RunPlan:
    told = {"runtime": "docker", "engine": "fabric", "versions": {"torch": "of the host", "numpy": "of the host"}}
    return plan_of(topology).model_copy(update={**told, **more})


def said(plan: RunPlan, *, force: bool = False) -> list[str]:
    """Without what is said of a testbed that is not this one."""
    found: list[str] = []
    check_engine_and_image(plan, "mine:1", FOLDER, found.append, force=force)
    return [words for words in found if "testbed in the image" not in words]


def test_versions_are_those_of_the_image(engine: FakeEngine) -> None:
    def versions() -> dict[str, str]:
        return check_engine_and_image(plan(), "mine:1", FOLDER, lambda _: None, force=False).versions

    told = {"testbed": "9.9", "python": "3.12.1", "torch": "2.0+cpu", IMAGE: "sha256:abc"}
    assert versions() == {**told, "numpy": "1.9"}
    for answer in ((404, {"message": "no such file"}), (200, b"no archive"), (200, packed("no JSON"))):
        engine.answers[ARCHIVE] = answer
        assert versions() == told, "what the image does not tell is not taken from here"


def test_an_image_without_the_compiled_core(engine: FakeEngine) -> None:
    """What its fabric can carry is known before, and with that the time scale that the run needs."""
    told: list[str] = []

    def carried(asked: str | None, image: str = "mine:1") -> Carrier:
        choice = DockerRuntime().data_plane({"image": image}, asked, told.append)
        return capacity.carrier(plan(data_plane=choice))

    slow, fast = CARRIERS["python"], CARRIERS["native"]
    with pytest.raises(PreflightRefused, match="the image mine:1 has no compiled core") as refused:
        carried("native")
    assert refused.value.hint.startswith("build it anew: testbed build --tag mine:1")
    assert (carried("python"), told) == (slow, [])
    assert carried(None) == slow
    (words,) = told
    assert words.startswith("warning: the fabric runs in Python, about seven times slower: the image mine:1 has no")
    engine.answers[ARCHIVE] = (200, packed(json.dumps({"python": "3.12.1", CORE_COMPILER: "gcc 1.2.3"})))
    assert [carried(asked) for asked in ("native", None, "python")] == [fast, fast, slow]
    assert [carried(asked, "other:1") for asked in ("native", None)] == [fast, slow], "it is not there yet"
    assert len(told) == 1


def test_more_processors_than_there_are(engine: FakeEngine) -> None:
    def with_cpus(count: float) -> RunPlan:
        return plan(star(4).replace("replicas: 4", f"replicas: 4, cpus: {count}"))

    assert said(with_cpus(2)) == []
    with pytest.raises(PreflightRefused) as refused:
        said(with_cpus(2.5), force=True)
    assert (
        "is to have 2.5 processors (`cpus` in the topology); the Docker Engine's machine has 2" in refused.value.message
    )
    assert refused.value.exit_code == 4
    engine.answers["/info"] = (200, {"NCPU": 64})
    assert said(with_cpus(2.5)) == []


@pytest.mark.usefixtures("engine")
def test_a_large_model_needs_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each of four containers it is there 16 times."""
    large = plan(parameters=10_000_000)
    monkeypatch.setattr(preflight, "available_bytes", lambda: 5 * PROCESS_BYTES + 4 * 16 * 40_000_000)
    assert said(plan()) == []
    (words,) = said(large)
    assert words.endswith(": 4 fit")
    monkeypatch.setattr(preflight, "available_bytes", lambda: 5 * PROCESS_BYTES + 4 * 15 * 40_000_000)
    with pytest.raises(PreflightRefused, match=r"4 containers need about .* each and 185 MB for control.*: 3 fit"):
        said(large)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(("fitting", "told"), [(4, True), (7, True), (8, False)])
def test_how_many_fit_is_said_where_more_than_half_of_them_are_wanted(
    fitting: int, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "available_bytes", lambda: (1 + fitting) * PROCESS_BYTES)
    assert [words.rpartition(": ")[2] for words in said(plan(parameters=0))] == [f"{fitting} fit"] * told


def check_containers(plan: RunPlan, say: Callable[[str], None], *, force: bool, dry: bool = False) -> RunPlan:
    checking = Checking(FOLDER, {} if dry else {"image": "mine:1"}, say, force=force, is_fitted=True, dry=dry)
    return DockerRuntime().check(plan, checking)


class TestAsOnThisMachine:
    """What is refused with processes is refused with containers."""

    @pytest.mark.parametrize("dry", [False, True])
    def test_connections_that_would_never_come_up(self, engine: FakeEngine, *, dry: bool) -> None:
        far = plan(star(4).replace("5ms", "2s"), time_scale=8.0)
        with pytest.raises(PreflightRefused, match="the kernel gives up connections"):
            check_containers(far, lambda _: None, force=True, dry=dry)
        assert engine.asked == []

    def test_steps_that_are_too_fast(self, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(machine_speed, "step_times", lambda *_: StepTimes(160.0, 200.0))
        fast = plan_of(star(4), compute={"ms_per_step": 50}).model_copy(
            update={"runtime": "docker", "engine": "fabric"}
        )
        with pytest.raises(PreflightRefused, match="real time of a local step of 4 learners: 160 to 200 ms needed"):
            check_containers(fast, lambda _: None, force=False)
        found: list[str] = []
        checked = check_containers(fast, found.append, force=True)
        assert checked.versions[IMAGE] == "sha256:abc"
        assert any(words.startswith("warning: processors: real time of a local step") for words in found)
        assert engine.asked
