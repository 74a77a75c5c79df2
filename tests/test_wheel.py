"""The wheel holds all that the product needs: it is built, installed into an empty venv and used from there."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from testbed.topologies.bundled import BUNDLED

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    how = ("--wheel", "--no-isolation", "--skip-dependency-check")  # with a C compiler, if there is one
    build = [sys.executable, "-m", "build", *how, "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, text=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_bundled_files_are_in_the_wheel(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"testbed/topologies/bundled/{each.file_name}" for each in BUNDLED} <= names
    assert any(name.startswith("testbed/topologies/matrices/") for name in names)
    assert not [name for name in names if name.startswith(("tests/", "docs/", "scripts/"))]


def test_all_that_is_no_code_is_in_the_wheel_too(wheel: Path) -> None:
    """Templates, above all: nothing imports them, so nothing but their absence tells."""
    names = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "testbed"
    data = {str(path.relative_to(ROOT)) for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    templates = {f"testbed/templates/{path.name}" for path in (ROOT / "templates").glob("*.j2")}
    assert len(templates) >= 3
    assert templates <= names
    assert data <= names, data - names


def test_the_installed_wheel_works_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, capture_output=True)
    python = venv / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    install = [*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    # The dependencies are taken from where the tests run; testbed itself only from the wheel.
    (site,) = (venv / "lib").glob("python*/site-packages")
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    (site / "dependencies.pth").write_text("\n".join(libraries) + "\n")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [str(venv / "bin" / "testbed"), *arguments], capture_output=True, text=True, cwd=tmp_path, env=environment
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = [str(python), "-c", "import testbed; print(testbed.__file__)"]
    found = subprocess.run(where, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment).stdout
    assert Path(found.strip()).is_relative_to(venv)
    listed = run("topologies", "--format", "csv")
    assert all(each.name in listed for each in BUNDLED)
    assert '"ok": true' in run("validate", "topologies/wan256.xml", "--format", "json")
    run("generate", "regions", "--nodes", "12", "-o", "mine.yaml")
    run("validate", "mine.yaml")
    rendered = run("render", "topologies/lan4.xml", "--target", "kollaps", "-o", "rendered", "--quiet")
    assert (tmp_path / "rendered" / "topology.xml").is_file()
    assert len(rendered.splitlines()) == 4
