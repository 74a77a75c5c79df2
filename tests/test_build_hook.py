"""Installing compiles the fabric's core: with a C compiler, with ziglang, and without either."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from testbed.engines.fabric.native_plane.compile_core import is_current
from tests.engines.compiled_core import a_compiler, path_without_compilers

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[1]
FOLDER = Path("testbed", "engines", "fabric", "native_plane")
LIBRARY = f"{FOLDER}/fabric_core.so"
IN_PLACE = """
import sys
from hatchling.builders.wheel import WheelBuilder
WheelBuilder(".").get_build_hooks(sys.argv[1])["custom"].initialize("editable", {})
"""
NO_INDEX = re.compile(r"No matching distribution|Could not find a version|ConnectionError|Temporary failure")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what of this one is needed for wheels."""
    copy = tmp_path / "checkout"
    left_out = shutil.ignore_patterns("__pycache__", "fabric_core.so")
    for name in ("testbed", "image", "algorithms", "templates", "scripts"):
        shutil.copytree(ROOT / name, copy / name, ignore=left_out)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, copy)
    return copy


def without_compilers(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine without a C compiler."""
    found = {name: value for name, value in os.environ.items() if name != "CC"}
    return {**found, "PATH": path_without_compilers(tmp_path / "bin")}


def pip_wheel(checkout: Path, *more: str, environment: dict[str, str]) -> str:
    """What pip has said; the test is skipped where no index has what the build requires."""
    options = ("--no-deps", "--verbose", "--wheel-dir", str(checkout / "dist"))
    words = [sys.executable, "-m", "pip", "wheel", *options, *more, str(checkout)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, cwd=checkout)
    said = done.stdout + done.stderr
    if done.returncode and NO_INDEX.search(said):
        pytest.skip("no package index has what the build requires")
    assert done.returncode == 0, said
    return said


def built(checkout: Path, folder: Path) -> tuple[str, Path]:
    """The name of the wheel that was made, and the library in it, which may be missing."""
    (wheel,) = (checkout / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return wheel.name, folder / LIBRARY


def this_machine() -> str:
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def test_a_compiler_makes_the_core_for_the_wheel_of_this_machine(checkout: Path, tmp_path: Path) -> None:
    a_compiler()
    pip_wheel(checkout, "--no-build-isolation", environment=dict(os.environ))
    name, library = built(checkout, tmp_path / "in")
    assert name.endswith(f"-py3-none-{this_machine()}.whl")
    assert is_current(library)
    assert not (checkout / LIBRARY).exists(), "only installations in place have it there"


def test_without_compiler_and_ziglang_the_wheel_is_pure_and_that_is_said(checkout: Path, tmp_path: Path) -> None:
    (checkout / LIBRARY).write_bytes(b"made at some time by an installation in place")
    said = pip_wheel(checkout, "--no-build-isolation", environment=without_compilers(tmp_path))
    assert "the fabric will run in Python, about seven times slower: there is no C compiler" in said
    name, library = built(checkout, tmp_path / "in")
    assert name.endswith("-py3-none-any.whl")
    assert not library.exists()
    assert (library.parent / "core" / "version.c").exists(), "to be compiled later"


def test_a_machine_with_python_alone_ends_with_the_core(checkout: Path, tmp_path: Path) -> None:
    """ziglang is required by the build where it is isolated."""
    pip_wheel(checkout, environment=without_compilers(tmp_path))
    name, library = built(checkout, tmp_path / "in")
    assert name.endswith(f"-py3-none-{this_machine()}.whl")
    assert is_current(library)
    load = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).core_abi()"
    subprocess.run([sys.executable, "-c", load, str(library)], check=True)


@pytest.mark.soaked
def test_wheels_can_be_made_for_other_machines_and_for_all(checkout: Path, tmp_path: Path) -> None:
    for machine, platform in (("aarch64", "manylinux_2_28_aarch64"), ("none", "any")):
        pip_wheel(checkout, environment={**os.environ, "TESTBED_CORE": machine})
        name, library = built(checkout, tmp_path / machine)
        assert name.endswith(f"-py3-none-{platform}.whl")
        assert library.exists() is (machine != "none")
        shutil.rmtree(checkout / "dist")


def test_an_installation_in_place_has_the_core_in_place(checkout: Path, tmp_path: Path) -> None:
    a_compiler()
    subprocess.run([sys.executable, "-c", IN_PLACE, str(tmp_path)], cwd=checkout, check=True)
    assert is_current(checkout / LIBRARY)


def test_only_the_core_is_made_anew_when_only_that_has_changed(checkout: Path, tmp_path: Path) -> None:
    """In a .venv that has all else, as its stamp says. pip is called only for a compiler."""
    a_compiler()
    venv.create(checkout / ".venv", with_pip=False)
    (site,) = (checkout / ".venv" / "lib").glob("python*/site-packages")
    (site / "pip.py").write_text("import sys\nif __name__ == '__main__':\n    print(*sys.argv[1:])\n")
    script = "echo $(cat pyproject.toml constraints.txt | sha256sum | cut -d' ' -f1)-$PWD >.venv/installed"
    subprocess.run(["/bin/sh", "-c", script], cwd=checkout, check=True)

    def refreshed(environment: dict[str, str] | None = None) -> str:
        words = [str(checkout / "scripts" / "venv")]
        return subprocess.run(words, capture_output=True, text=True, check=True, env=environment).stderr

    def change() -> None:
        with (checkout / FOLDER / "core" / "version.c").open("a") as source:
            source.write("/* more */\n")

    assert refreshed().startswith("compiled ")
    assert refreshed() == ""
    change()
    assert refreshed().startswith("compiled ")
    change()
    said = refreshed(without_compilers(tmp_path)).splitlines()
    assert said[0].startswith("there is no C compiler")
    assert said[-1].endswith("--editable . --no-deps")
