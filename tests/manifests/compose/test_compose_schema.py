"""What Compose itself says of the files: the official schema, and the docker-compose that Debian ships."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from testbed.manifests import Manifest
from testbed.topologies.bundled import BUNDLED
from tests.manifests.compose.composing import PARTS, document_of, hostile, mounts, rendered, services_of
from tests.manifests.compose.test_compose_golden import SERVER

ALL = {each.name: each.name for each in BUNDLED if each.name not in ("wan256", "wan1024")}
ALL |= {"hostile": hostile(), "server": SERVER}
OLD = shutil.which("docker-compose")


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    """It comes with a tool of others, which is not needed itself."""
    found = importlib.util.find_spec("check_jsonschema")
    if found is None or not found.submodule_search_locations:
        pytest.skip("check-jsonschema, which has the official schema of Compose, is not installed")
    path = Path(found.submodule_search_locations[0]) / "builtin_schemas" / "vendor" / "compose-spec.json"
    document = json.loads(path.read_text())
    Draft202012Validator.check_schema(document)
    return Draft202012Validator(document)


@pytest.mark.parametrize("name", ALL)
def test_the_official_schema_has_nothing_to_say(name: str, schema: Draft202012Validator) -> None:
    document = document_of(rendered(ALL[name]))
    assert [error.message for error in schema.iter_errors(document)] == []
    assert len(document["services"]) > len(PARTS)


def test_the_schema_is_one_that_refuses(schema: Draft202012Validator) -> None:
    document = document_of(rendered("lan4"))
    for key, value in {"pid_limit": 1, "cap_drop": "ALL", "read_only": [], "cpus": []}.items():
        broken = {**document, "services": {"a": {**document["services"]["node.0"], key: value}}}
        assert list(schema.iter_errors(broken)), key
    assert list(schema.iter_errors({**document, "services": {"a: b.0": {"image": "i"}}}))


needs_old = pytest.mark.skipif(OLD is None, reason="there is no docker-compose here")
SEVERAL = (
    *("labels", "hostname", "cap_add", "cap_drop", "devices", "sysctls", "restart", "user", "tmpfs", "mem_limit"),
    *("cpus", "pids_limit", "read_only", "network_mode", "security_opt", "depends_on", "command", "environment"),
    *("cpu_shares", "image", "stop_grace_period", "logging", "extra_hosts"),
)


@needs_old
@pytest.mark.processes
def test_an_old_compose_understands_all_of_it(tmp_path: Path) -> None:
    manifest = rendered(hostile())
    for name, text in manifest.files.items():
        (tmp_path / name).write_text(text)
    environment = {"TESTBED_UID": "77", "TESTBED_GID": "78", "TESTBED_RESULTS": "/r", "TESTBED_DATA": "/d"}
    with (tmp_path / ".env").open("a") as file:
        file.writelines(f"{name}={value}\n" for name, value in environment.items())
    assert_read_as(services_of(manifest, **environment), tmp_path)


@needs_old
@pytest.mark.processes
def test_an_old_compose_needs_nothing_beside_the_file_of_the_repository(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docker-compose.yml").read_text()
    (tmp_path / "docker-compose.yml").write_text(text)
    told = assert_read_as(services_of(Manifest({"docker-compose.yml": text})), tmp_path)
    assert mounts(told["prepare"]) == [(str(tmp_path / "results"), "/testbed/results", "rw")]


def assert_read_as(expected: dict[str, dict[str, Any]], folder: Path) -> dict[str, dict[str, Any]]:
    """Every service, with everything filled in."""
    told = config(folder)
    assert told.keys() == expected.keys()
    for key, service in expected.items():
        for what in SEVERAL:
            assert told[key].get(what) == service.get(what), (key, what)
        assert told[key].get("healthcheck") == ({"test": ["NONE"]} if key in PARTS else None)
        assert set(told[key]) - {"volumes", "healthcheck"} <= set(SEVERAL)
        written = [(*each, "rw")[:3] for each in mounts(service)]
        here = [(str(folder / source) if source.startswith("./") else source, *rest) for source, *rest in written]
        assert mounts(told[key]) == here
    return told


def config(folder: Path) -> dict[str, dict[str, Any]]:
    """What it makes of the files."""
    assert OLD is not None
    done = subprocess.run(
        [OLD, "config"], cwd=folder, capture_output=True, text=True, check=False, env={"HOME": "/nowhere"}
    )
    assert done.returncode == 0, done.stderr
    assert "not set" not in done.stderr
    read: dict[str, dict[str, dict[str, Any]]] = yaml.safe_load(done.stdout.replace("$$", "$"))
    return read["services"]
