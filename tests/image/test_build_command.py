"""`testbed build`: what is wrong is said before an Engine is asked, and the files it goes by are as they should be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from testbed.cli.main import main

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


@pytest.fixture(autouse=True)
def _no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'none'}")


def ends_with(code: int, *arguments: str) -> str:
    result = CliRunner().invoke(main, ["build", *arguments])
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    return result.stderr


def test_without_an_engine() -> None:
    said = ends_with(4)
    assert "no Docker Engine answers at unix://" in said
    assert "--runtime local" in said


@pytest.mark.parametrize("tag", ["UPPER", "a b", "-x", "a:b:c", "", "a/", "x:" + "t" * 129])
def test_a_name_that_is_none(tag: str) -> None:
    assert "cannot be an image's name" in ends_with(2, f"--tag={tag}")


@pytest.mark.parametrize("tag", ["a", "my-image:1.0", "elsewhere.test:5000/group/name:tag_1", "a__b"])
def test_a_name_that_is_one(tag: str) -> None:
    ends_with(4, "--tag", tag)


@pytest.mark.parametrize("torch", ["gpu", "2.0; rm", "", "2.0 --index-url x"])
def test_a_torch_that_is_none(torch: str) -> None:
    assert "is no version" in ends_with(2, f"--torch={torch}")


def test_a_bad_file_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("\n\nclass (:\n")
    said = ends_with(3, "--algorithm", str(tmp_path / "bad.py"))
    assert "bad.py:3:" in said
    assert "Docker" not in said


def test_no_file_names_where_packages_come_from() -> None:
    files = [ROOT / "Dockerfile", ROOT / ".dockerignore", *(ROOT / "image").glob("*"), ROOT / "scripts" / "base-image"]
    for path in [*files, ROOT / "scripts" / "docker-engine"]:
        if path.is_file() and path.name not in ("pip.conf", "ca.crt"):
            addresses = re.findall(r"https?://[^\s\"']+", path.read_text())
            assert not addresses, (path, addresses)


def test_the_example_s_line_is_in_the_dockerfile_and_its_readme() -> None:
    line = "COPY examples/my-algorithm/fresh_gossip.py /opt/testbed/algorithms/"
    block = DOCKERFILE.split("==== your algorithms")[1]
    assert f"# {line}\n" in block
    assert f"\n{line}\n" in (ROOT / "examples" / "my-algorithm" / "README.md").read_text()


def test_what_changes_often_comes_last() -> None:
    copies = re.findall(r"^COPY (.*)$", DOCKERFILE, re.MULTILINE)
    order = [
        "constraints.txt",
        "--from=packages",
        "native_plane/core/",
        "--from=compiler",
        "requirements.tx[t]",
        "--from=more",
        "/lib/testbed/",
        "algorithms/ /opt",
    ]
    places = [next(at for at, text in enumerate(copies) if each in text) for each in order]
    assert places == sorted(places)


def test_only_the_environment_of_packages_leaves_the_first_stage() -> None:
    assert re.findall(r"--from=packages (\S+)", DOCKERFILE) == ["/opt/testbed/"]
    assert re.findall(r"--from=(?:compiler|more) (\S+)", DOCKERFILE) == ["/added/", "/added/"]
    last = DOCKERFILE.split("FROM ${REQUIREMENTS}")[1]
    for secret in ("image/", "pip.conf", "ca.crt", "ARG"):
        assert secret not in last, secret
