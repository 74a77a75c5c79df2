"""The image with all packages, on which testbed's image is built; made if it is missing.

Takes a request, gives an image's name; asks the Docker Engine, and pip for packages in folders of this machine. The
name holds a hash of everything the image is made from, so it is only built again if one of these changes.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from testbed.errors import CouldNotStart, PreflightRefused
from testbed.image.build_stream import Tell, follow
from testbed.image.code import REQUIREMENTS
from testbed.image.context import ALGORITHMS, DOCKERFILE, PROJECT, SCRIPTS, Context
from testbed.image.engine_client import answers_closed
from testbed.image.facts import dropped, id_of, remove, temporary_container
from testbed.image.pip_settings import WHEELS, PipSettings, collect, pip_settings, wheels_in

if TYPE_CHECKING:
    from docker import DockerClient

STAGE: Final = "dependencies"
MORE_STAGE: Final = "requirements"
_PIP_CONF, _CERTIFICATES = f"{SCRIPTS}/pip.conf", f"{SCRIPTS}/ca.crt"
OF_THE_MACHINE: Final = (_PIP_CONF, _CERTIFICATES, WHEELS)
"""Files that `docker build .` takes from the checkout, and `testbed build` from this machine's settings."""
_AFTER_PACKAGES: Final = re.compile(rf"^(?=FROM \$\{{{STAGE.upper()}\}})", re.MULTILINE)
_AFTER_MORE: Final = re.compile(rf"^(?=FROM \$\{{{MORE_STAGE.upper()}\}})", re.MULTILINE)
_STAGES: Final = re.compile(r"^(?=FROM )", re.MULTILINE)
_MORE_SCRIPT: Final = "install-requirements"
_VERSIONS: Final = "/opt/testbed/versions.json"


@dataclass(frozen=True)
class Packages:
    """The packages that an image is to have."""

    context: Context
    base: str
    torch: str
    wheels: Path | None

    @property
    def network(self) -> str:
        """The build's network: none if it is offline, else this machine's."""
        return "none" if self.wheels is not None else "host"


def image_with(engine: DockerClient, wanted: Packages, tell: Tell, say: Callable[[str], None]) -> str:
    """The name of an image with these packages, which is built if missing.

    Packages of the researcher's code are the topmost layer, so a change there installs nothing else again.
    """
    name = _own_name(engine, wanted)
    if id_of(engine, name) is None:
        context = wanted.context.only(DOCKERFILE, *PROJECT, SCRIPTS)
        arguments = {"BASE": wanted.base, "TORCH": wanted.torch}
        _install(engine, wanted, context, name, STAGE, arguments, tell, say)
    more = name_of(engine, wanted)
    if more != name and id_of(engine, more) is None:
        context = without_packages(wanted.context.only(DOCKERFILE, *PROJECT, SCRIPTS, f"{ALGORITHMS}/{REQUIREMENTS}"))
        _install(engine, wanted, context, more, MORE_STAGE, {"BASE": wanted.base, "DEPENDENCIES": name}, tell, say)
    return more


def _install(
    engine: DockerClient,
    wanted: Packages,
    context: Context,
    name: str,
    stage: str,
    arguments: dict[str, str],
    tell: Tell,
    say: Callable[[str], None],
) -> None:
    """Builds the image of that name from a stage of the Dockerfile."""
    python = _python_of(engine, wanted.base)
    before = dropped(engine)
    with tempfile.TemporaryDirectory(prefix="testbed-wheels-") as folder:
        if wanted.wheels is not None:
            context = Context({**context.files, **wheels_in(wanted.wheels)}, context.extra)
        else:
            settings = pip_settings()
            arguments.update(settings.proxies)
            context = _reaching_packages(context, settings, wanted.torch, python, Path(folder), say)
        try:
            run_build(engine, context, name, tell, arguments=arguments, labels={}, network=wanted.network, target=stage)
        finally:
            remove(engine, dropped(engine) - before)


def name_of(engine: DockerClient, wanted: Packages) -> str:
    """The name of the image with these packages, present or not."""
    own, asked = _own_name(engine, wanted), _requirements(wanted.context)
    if not asked.strip():
        return own
    text = wanted.context.read(DOCKERFILE).decode(errors="replace")
    stages = _AFTER_MORE.split(_from_packages_on(text), maxsplit=1)[0]
    script = wanted.context.read(f"{SCRIPTS}/{_MORE_SCRIPT}").decode(errors="replace")
    return _named(own, stages, script, asked.decode(errors="replace"))


def _own_name(engine: DockerClient, wanted: Packages) -> str:
    """The name of the image with only testbed's packages. It does not depend on the package index."""
    context = wanted.context
    head = _AFTER_PACKAGES.split(context.read(DOCKERFILE).decode(errors="replace"), maxsplit=1)[0]
    scripts = {name: context.read(name).decode(errors="replace") for name in context.only(SCRIPTS).names()}
    project = tomllib.loads(context.read("pyproject.toml").decode())
    return _named(
        id_of(engine, wanted.base),
        wanted.torch,
        head,
        {name: text for name, text in scripts.items() if not name.endswith((".md", _MORE_SCRIPT))},
        project["project"]["dependencies"],
        context.read("constraints.txt").decode(),
        [(name, path.stat().st_size) for name, path in wheels_in(wanted.wheels).items()] if wanted.wheels else None,
    )


def _named(*parts: object) -> str:
    return f"testbed-{STAGE}:{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]}"


def without_packages(context: Context) -> Context:
    """The context of what is built on testbed's packages: the Dockerfile's later stages only."""
    text = context.read(DOCKERFILE).decode(errors="replace")
    return context.with_extra({DOCKERFILE: _from_packages_on(text).encode()})


def without_all_packages(context: Context) -> Context:
    """The context of what is built on all packages: the Dockerfile's last stages only."""
    text = context.read(DOCKERFILE).decode(errors="replace")
    return context.with_extra({DOCKERFILE: _cut(text, _AFTER_MORE).encode()})


def versions_in(engine: DockerClient, image: str) -> dict[str, str]:
    """The versions of Python and all packages in an image, as recorded at its build; empty if unknown."""
    from docker.errors import NotFound

    with temporary_container(engine, image) as container:
        try:
            chunks, _ = engine.api.get_archive(container, _VERSIONS)
            with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
                file = archive.extractfile(Path(_VERSIONS).name)
                found = json.loads(file.read()) if file is not None else {}
        except (NotFound, tarfile.TarError, ValueError):
            return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def run_build(
    engine: DockerClient,
    context: Context,
    tag: str | None,
    tell: Tell,
    *,
    arguments: Mapping[str, str],
    labels: Mapping[str, str],
    network: str,
    target: str | None = None,
) -> str:
    """Runs one build, gives the image's id. Its temporary containers are removed."""
    with context.archive() as archive, answers_closed(engine):
        messages = engine.api.build(
            fileobj=archive,
            custom_context=True,
            dockerfile=DOCKERFILE,
            tag=tag,
            target=target or "",
            buildargs=dict(arguments),
            labels=dict(labels),
            network_mode=network,
            rm=True,
            forcerm=True,
            decode=True,
        )
        return follow(messages, tell)


def _reaching_packages(
    context: Context,
    settings: PipSettings,
    torch: str,
    python: str,
    folder: Path,
    say: Callable[[str], None],
) -> Context:
    """The context with what pip needs inside the build to find the same packages as pip here."""
    if settings.is_of_this_machine:
        say("getting packages together with this machine's pip, whose folders no container sees")
        wheels = _wheels(context, torch, python, folder)
        return Context({**context.files, **wheels}, context.extra)
    extra = {_PIP_CONF: settings.as_file()}
    if settings.certificates is not None:
        extra[_CERTIFICATES] = settings.certificates
    return context.with_extra(extra)


def _wheels(context: Context, torch: str, python: str, folder: Path) -> dict[str, Path]:
    for name in PROJECT:
        (folder / name).write_bytes(context.read(name))
    script = folder / "select_packages.py"
    script.write_bytes(context.read(f"{SCRIPTS}/select_packages.py"))
    done = subprocess.run(  # noqa: S603 - a script of ours
        [sys.executable, str(script), torch], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise CouldNotStart(f"cannot read pyproject.toml and constraints.txt: {done.stderr.strip()[-300:]}")
    requirements = _requirements(context) or (folder / "dependencies.txt").read_bytes()
    return collect(requirements, (folder / "versions.txt").read_bytes(), folder, python)


def _from_packages_on(dockerfile: str) -> str:
    return _cut(dockerfile, _AFTER_PACKAGES)


def _cut(dockerfile: str, where: re.Pattern[str]) -> str:
    """The Dockerfile's global arguments, and its stages from `where` on; all of it if `where` does not occur."""
    _, *after = where.split(dockerfile, maxsplit=1)
    return "".join([_STAGES.split(dockerfile, maxsplit=1)[0], *after]) if after else dockerfile


def _requirements(context: Context) -> bytes:
    name = f"{ALGORITHMS}/{REQUIREMENTS}"
    return context.read(name) if name in context.names() else b""


def _python_of(engine: DockerClient, base: str) -> str:
    """The version of the base's Python; refuses a base without Python, or with one that is too old."""
    from docker.errors import APIError

    script = "import platform; print(platform.python_version())"
    with temporary_container(engine, base, ["-c", script], entrypoint=["python"]) as container:
        try:
            engine.api.start(container)
        except APIError as problem:
            raise _no_python(base, problem.explanation or str(problem)) from None
        ended = int(engine.api.wait(container)["StatusCode"])
        said = engine.api.logs(container, stderr=bool(ended)).decode(errors="replace").strip()
    if ended:
        raise _no_python(base, said or f"it ends with exit code {ended}")
    numbers = tuple(int(each) for each in re.findall(r"\d+", said)[:2])
    if numbers < (3, 11):
        raise PreflightRefused(f"the base image {base} has Python {said}; testbed needs 3.11", "name another one")
    return said


def _no_python(base: str, words: str) -> PreflightRefused:
    line = words.splitlines()[0][:200]
    return PreflightRefused(f"the base image {base} has no working `python`: {line}", "name another one")
