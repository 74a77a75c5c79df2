"""Whatever is wrong with an Engine is said in a sentence, with the right exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.errors import CouldNotStart, ExitCode, PreflightRefused, TestbedError
from testbed.image.base import OWN, USUAL, choose_base
from testbed.image.engine_client import DockerEngineSilent, cannot_reach, connected, refused
from testbed.image.facts import code_in, code_label, image_id, labels_of
from tests.image.fake_engine import FakeEngine


def test_no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'none'}")
    with pytest.raises(PreflightRefused) as caught, connected():
        pass
    assert caught.value.message == f"no Docker Engine answers at unix://{tmp_path / 'none'}"
    assert "scripts/docker-engine" in caught.value.hint
    assert caught.value.exit_code is ExitCode.REFUSED


def test_an_address_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "nonsense://x")
    with pytest.raises(PreflightRefused, match="no Docker Engine answers at nonsense://x: "), connected():
        pass


def test_no_permission() -> None:
    inner = PermissionError(13, "Permission denied")
    found = cannot_reach("unix:///s", ValueError("Error while fetching", ConnectionError("aborted", inner)))
    assert found.message == "no permission to use the Docker Engine at unix:///s"
    assert "docker" in found.hint


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        ((500, {"message": "write /x: no space left on device"}), PreflightRefused, "no space left where the Docker"),
        ((500, {"message": "oops\nmore"}), CouldNotStart, "the Docker Engine says: oops"),
        ((0, None), DockerEngineSilent, "does not answer any more"),
    ],
)
def test_an_engine_in_trouble(engine: FakeEngine, answer: tuple[int, object], kind: type, words: str) -> None:
    engine.answers["/images/mine/json"] = answer
    with pytest.raises(TestbedError) as caught:
        image_id("mine")
    assert type(caught.value) is kind
    assert words in caught.value.message
    assert "\n" not in caught.value.message


def test_what_a_name_stands_for(engine: FakeEngine) -> None:
    label = code_label({"b.py": "d4735e3a265e16ee", "a.py": "6b86b273ff34fce1"})
    engine.answers["/images/mine:1/json"] = (200, {"Id": "sha256:abc", "Config": {"Labels": {"testbed.code": label}}})
    engine.answers["/images/other/json"] = (200, {"Id": "sha256:d", "Config": {"Labels": None}})
    assert image_id("mine:1") == "sha256:abc"
    with connected() as client:
        code = code_in(labels_of(client, "mine:1"))
        assert code_in(labels_of(client, "other")) == {}
    assert list(code) == ["a.py", "b.py"]
    assert code["a.py"].startswith("6b86b273ff34fce1")
    with pytest.raises(PreflightRefused) as caught:
        image_id("none:1")
    assert caught.value.hint == "build it: testbed build --tag none:1"


@pytest.mark.parametrize("text", ["[]", "{", "3", '{"a": 1}'])
def test_a_label_that_says_nothing(text: str) -> None:
    assert code_in({"testbed.code": text}) == {}


def test_a_full_disk_is_refused_with_what_helps() -> None:
    found = refused("Error processing tar file: no space left on device")
    assert (found.exit_code, "docker system df" in found.hint) == (ExitCode.REFUSED, True)


def present(engine: FakeEngine, *names: str) -> None:
    for name in names:
        engine.answers[f"/images/{name}/json"] = (200, {"Id": f"sha256:{name}"})


def test_the_base_that_is_taken(engine: FakeEngine) -> None:
    said: list[str] = []
    with connected() as client:
        present(engine, OWN)
        assert choose_base(client, None, said.append) == OWN
        assert f"building on {OWN}" in said[0]
        present(engine, USUAL)
        assert choose_base(client, None, said.append) == USUAL
        assert choose_base(client, OWN, said.append) == OWN
    assert "/images/create" not in engine.asked
    assert len(said) == 1


@pytest.mark.parametrize(
    ("given", "pulled"),
    [
        (None, ("python", "3.11-slim")),
        ("elsewhere.test:5000/a/b", ("elsewhere.test:5000/a/b", "latest")),
        ("elsewhere.test:5000/a/b:c", ("elsewhere.test:5000/a/b", "c")),
        ("mine", ("mine", "latest")),
    ],
)
def test_a_base_that_cannot_be_had(engine: FakeEngine, given: str | None, pulled: tuple[str, str]) -> None:
    engine.answers["/images/create"] = (500, {"message": "dial tcp: lookup failed"})
    with connected() as client, pytest.raises(PreflightRefused) as caught:
        choose_base(client, given, lambda _: None)
    name = given or USUAL
    assert caught.value.message == f"the base image {name} is not here and cannot be fetched: dial tcp: lookup failed"
    assert "scripts/base-image" in caught.value.hint
    assert engine.pulled == [pulled]
