"""A build is told how pip on this machine reaches packages."""

from __future__ import annotations

import configparser
import importlib.util
import platform
from pathlib import Path
from types import ModuleType

import pytest

from testbed.errors import PreflightRefused, UsageProblem
from testbed.image.pip_settings import PipSettings, collect, parsed, pip_settings, wheels_in

ROOT = Path(__file__).parents[2]
LISTING = r"""
global.index-url='https://first.test/simple'
global.extra-index-url='https://a.test/simple\nhttps://b.test/simple'
install.index-url='https://second.test/simple'
:env:.default-timeout='180'
:env:.cert='/x.pem'
freeze.timeout='10'
nonsense
global.proxy=unquoted
"""


def test_what_counts_among_pip_s_sections() -> None:
    assert parsed(LISTING) == {
        "index-url": "https://second.test/simple",
        "extra-index-url": "https://a.test/simple\nhttps://b.test/simple",
        "timeout": "180",
        "cert": "/x.pem",
    }


def test_the_file_for_the_build_says_the_same() -> None:
    values = {"extra-index-url": "https://a.test/simple\nhttps://b.test/s%20x", "timeout": "180"}
    reader = configparser.RawConfigParser()
    reader.read_string(PipSettings(values).as_file().decode())
    assert reader["global"]["extra-index-url"].split() == values["extra-index-url"].split()
    assert reader["global"]["timeout"] == "180"


@pytest.mark.parametrize(
    ("key", "value", "is_local"),
    [
        ("find-links", "/srv/wheels", True),
        ("find-links", "wheels", True),
        ("index-url", "file:///srv/simple", True),
        ("extra-index-url", "https://a.test/simple\nFILE:///srv/simple", True),
        ("index-url", "https://a.test/simple", False),
        ("find-links", "http://a.test/wheels/", False),
        ("proxy", "/odd", False),
    ],
)
def test_folders_of_this_machine_are_noticed(key: str, value: str, *, is_local: bool) -> None:
    assert PipSettings({key: value}).is_of_this_machine is is_local


@pytest.mark.processes
def test_proxies_certificates_and_variables_of_the_environment(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n")
    (tmp_path / "empty.pem").write_text("")
    environment = {
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_INDEX_URL": "https://a.test/simple",
        "PIP_NO_COLOR": "1",
        "PIP_CERT": str(tmp_path / "empty.pem"),
        "SSL_CERT_FILE": str(tmp_path / "ca.pem"),
        "https_proxy": "http://proxy.test:1",
        "NO_PROXY": "",
        "HOME": str(tmp_path),
    }
    found = pip_settings(environment)
    assert found.values["index-url"] == "https://a.test/simple"
    assert "no-color" not in found.values
    assert found.certificates is not None
    assert b"\nx\n" in found.certificates
    assert found.proxies == {"https_proxy": "http://proxy.test:1"}


def test_a_folder_of_wheels(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="there is no such folder"):
        wheels_in(tmp_path / "none")
    with pytest.raises(UsageProblem, match="no wheels in it"):
        wheels_in(tmp_path)
    (tmp_path / "a-1-py3-none-any.whl").write_bytes(b"")
    (tmp_path / "notes.txt").write_bytes(b"")
    assert list(wheels_in(tmp_path)) == ["image/wheels/a-1-py3-none-any.whl"]


def test_packages_for_another_python_are_not_got_together(tmp_path: Path) -> None:
    with pytest.raises(PreflightRefused, match=r"the image has Python 3\.99"):
        collect(b"", b"", tmp_path, "3.99.1")


def selecting() -> ModuleType:
    spec = importlib.util.spec_from_file_location("select_packages", ROOT / "image" / "select_packages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("machine", "torch", "line", "expected"),
    [
        ("x86_64", "cpu", "torch==2.13.0\n", "torch==2.13.0+cpu\n"),
        ("aarch64", "cpu", "torch==2.13.0\n", "torch==2.13.0\n"),
        ("x86_64", "default", "torch==2.13.0\n", "torch==2.13.0\n"),
        ("x86_64", "2.13.0+cu130", "torch==2.13.0\n", "torch==2.13.0+cu130\n"),
        ("x86_64", "cpu", "torchvision==1.0\n", "torchvision==1.0\n"),
        ("x86_64", "cpu", "# torch==1\n", "# torch==1\n"),
    ],
)
def test_the_build_of_torch(
    monkeypatch: pytest.MonkeyPatch, machine: str, torch: str, line: str, expected: str
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert selecting().constraint(line, torch) == expected
