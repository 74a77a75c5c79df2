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
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from testbed.errors import CouldNotStart, PreflightRefused
from testbed.image.build_stream import Tell, follow
from testbed.image.code import REQUIREMENTS
from testbed.image.context import ALGORITHMS, DOCKERFILE, PACKAGE, PROJECT, SCRIPTS, Context
from testbed.image.engine_client import answers_closed
from testbed.image.facts import dropped, id_of, remove, temporary_container
from testbed.image.pip_settings import WHEELS, PipSettings, collect, pip_settings, wheels_in

if TYPE_CHECKING:
    from docker import DockerClient

STAGE: Final = "dependencies"
CORE_STAGE: Final = "core"
MORE_STAGE: Final = "requirements"
_PIP_CONF, _CERTIFICATES = f"{SCRIPTS}/pip.conf", f"{SCRIPTS}/ca.crt"
OF_THE_MACHINE: Final = (_PIP_CONF, _CERTIFICATES, WHEELS)
"""Files that `docker build .` takes from the checkout, and `testbed build` from this machine's settings."""
_STAGES: Final = re.compile(r"^(?=FROM )", re.MULTILINE)
_CORE_SCRIPT: Final = "compile-core"
_MORE_SCRIPT: Final = "install-requirements"
_CORE_SOURCES: Final = tuple(f"{PACKAGE}/engines/fabric/native_plane/{each}" for each in ("core", "compile_core.py"))
_COMPILER: Final = b"ziglang\n"
"""The package that compiles the fabric's core if the base has no C compiler."""
_VERSIONS: Final = "/opt/testbed/versions.json"
CORE_COMPILER: Final = "fabric_core"
"""Key of the compiler of the fabric's core among an image's versions; it is missing where the image has no core."""


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


@dataclass(frozen=True)
class _Layer:
    """An image that the next one is built on, and what its stage of the Dockerfile is given."""

    name: str
    stage: str
    context: Context
    arguments: Mapping[str, str]
    requirements: bytes | None = None
    """Packages to install, in pip's form; None for testbed's own."""
    may_lack_them: bool = False


def image_with(engine: DockerClient, wanted: Packages, tell: Tell, say: Callable[[str], None]) -> str:
    """The name of an image with these packages, which is built if missing, layer by layer.

    What changes more often lies on top, so that a change there installs nothing else again.
    """
    layers = _layers(engine, wanted)
    for each in layers:
        if id_of(engine, each.name) is None:
            _build(engine, wanted, each, tell, say)
    return layers[-1].name


def _build(engine: DockerClient, wanted: Packages, layer: _Layer, tell: Tell, say: Callable[[str], None]) -> None:
    python = _python_of(engine, wanted.base)
    before = dropped(engine)
    context, arguments = layer.context, {"BASE": wanted.base, **layer.arguments}
    with tempfile.TemporaryDirectory(prefix="testbed-wheels-") as folder:
        if wanted.wheels is not None:
            context = Context({**context.files, **wheels_in(wanted.wheels)}, context.extra)
        else:
            settings = pip_settings()
            arguments.update(settings.proxies)
            with suppress(CouldNotStart) if layer.may_lack_them else nullcontext():
                context = _reaching_packages(layer, settings, wanted.torch, python, Path(folder), say)
        try:
            run_build(
                engine,
                context,
                layer.name,
                tell,
                arguments=arguments,
                labels={},
                network=wanted.network,
                target=layer.stage,
            )
        finally:
            remove(engine, dropped(engine) - before)


def name_of(engine: DockerClient, wanted: Packages) -> str:
    """The name of the image with these packages, present or not."""
    return _layers(engine, wanted)[-1].name


def _layers(engine: DockerClient, wanted: Packages) -> list[_Layer]:
    """The lowest one first. Each name depends on the one below it."""
    everything = wanted.context
    layers = [
        _Layer(
            _own_name(engine, wanted), STAGE, everything.only(DOCKERFILE, *PROJECT, SCRIPTS), {"TORCH": wanted.torch}
        )
    ]
    for stage, script, sources, requirements in (
        (CORE_STAGE, _CORE_SCRIPT, _CORE_SOURCES, _COMPILER),
        (MORE_STAGE, _MORE_SCRIPT, (f"{ALGORITHMS}/{REQUIREMENTS}",), _requirements(everything)),
    ):
        if not requirements.strip():
            continue
        below = layers[-1]
        own = everything.only(*sources)
        context = on_top_of(everything.only(DOCKERFILE, *PROJECT, SCRIPTS, *sources), below.stage)
        stages = _from_stage(stage).split(context.read(DOCKERFILE).decode(errors="replace"), maxsplit=1)[0]
        name = _named(below.name, stages, everything.read(f"{SCRIPTS}/{script}").decode(errors="replace"), own.digest())
        arguments = {below.stage.upper(): below.name}
        layers.append(_Layer(name, stage, context, arguments, requirements, may_lack_them=stage == CORE_STAGE))
    return layers


def _own_name(engine: DockerClient, wanted: Packages) -> str:
    """The name of the image with only testbed's packages. It does not depend on the package index."""
    context = wanted.context
    head = _from_stage(STAGE).split(context.read(DOCKERFILE).decode(errors="replace"), maxsplit=1)[0]
    scripts = {name: context.read(name).decode(errors="replace") for name in context.only(SCRIPTS).names()}
    project = tomllib.loads(context.read("pyproject.toml").decode())
    return _named(
        id_of(engine, wanted.base),
        wanted.torch,
        head,
        {name: text for name, text in scripts.items() if not name.endswith((".md", _CORE_SCRIPT, _MORE_SCRIPT))},
        project["project"]["dependencies"],
        context.read("constraints.txt").decode(),
        [(name, path.stat().st_size) for name, path in wheels_in(wanted.wheels).items()] if wanted.wheels else None,
    )


def _named(*parts: object) -> str:
    return f"testbed-{STAGE}:{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]}"


def on_top_of(context: Context, stage: str) -> Context:
    """The context of what is built on the image of a stage: the Dockerfile's global arguments, and its later stages.

    A Dockerfile in which nothing is built on that is taken whole.
    """
    text = context.read(DOCKERFILE).decode(errors="replace")
    _, *after = _from_stage(stage).split(text, maxsplit=1)
    if not after:
        return context
    return context.with_extra({DOCKERFILE: "".join([_STAGES.split(text, maxsplit=1)[0], *after]).encode()})


def _from_stage(stage: str) -> re.Pattern[str]:
    """Where the Dockerfile builds on the image of that stage, which an argument names."""
    return re.compile(rf"^(?=FROM \$\{{{stage.upper()}\}})", re.MULTILINE)


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
    layer: _Layer,
    settings: PipSettings,
    torch: str,
    python: str,
    folder: Path,
    say: Callable[[str], None],
) -> Context:
    """The layer's context with what pip needs inside the build to find the same packages as pip here."""
    context = layer.context
    if settings.is_of_this_machine:
        say("getting packages together with this machine's pip, whose folders no container sees")
        wheels = _wheels(layer, torch, python, folder)
        return Context({**context.files, **wheels}, context.extra)
    extra = {_PIP_CONF: settings.as_file()}
    if settings.certificates is not None:
        extra[_CERTIFICATES] = settings.certificates
    return context.with_extra(extra)


def _wheels(layer: _Layer, torch: str, python: str, folder: Path) -> dict[str, Path]:
    for name in PROJECT:
        (folder / name).write_bytes(layer.context.read(name))
    script = folder / "select_packages.py"
    script.write_bytes(layer.context.read(f"{SCRIPTS}/select_packages.py"))
    done = subprocess.run(  # noqa: S603 - a script of ours
        [sys.executable, str(script), torch], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise CouldNotStart(f"cannot read pyproject.toml and constraints.txt: {done.stderr.strip()[-300:]}")
    requirements = layer.requirements or (folder / "dependencies.txt").read_bytes()
    return collect(requirements, (folder / "versions.txt").read_bytes(), folder, python)


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
