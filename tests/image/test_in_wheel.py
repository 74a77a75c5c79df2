"""An installed wheel builds the same image as the checkout that it was made from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.image.build import Request, build_image
from testbed.image.engine_client import connected

ROOT = Path(__file__).parents[2]
TAG = "testbed:test-wheel"
BUILD = f"""
import testbed
from testbed.image.build import Request, build_image, context_for
names = context_for(Request()).names()
assert not [name for name in names if "checkout" in name or name.startswith("tests/")], names
assert "Dockerfile" in names and "testbed/topologies/bundled/lan4.xml" in names, names
print(testbed.__file__)
print(build_image(Request(tag="{TAG}"), lambda _: None, lambda _: None).id)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    how = ("--wheel", "--no-isolation", "--skip-dependency-check")  # with a C compiler, if there is one
    build = [sys.executable, "-m", "build", *how, "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, text=True)
    (built,) = folder.glob("*.whl")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run([*install, "--target", str(folder / "site"), str(built)], check=True, capture_output=True, text=True)
    return folder / "site"


def test_it_builds_the_same_image(image: str, site: Path, tmp_path: Path) -> None:  # noqa: ARG001 - it has the packages
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-c", BUILD], capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    file, built = done.stdout.split()
    assert Path(file).is_relative_to(site)
    try:
        own = [path for path in (ROOT / "algorithms").iterdir() if path.suffix == ".py"]
        if not own:  # else a developer's own code is in the one and not in the other
            assert built == build_image(Request(tag=TAG), lambda _: None, lambda _: None).id
    finally:
        with connected() as engine:
            engine.api.remove_image(TAG, force=True)
