"""Checks, before a run directory exists, whether a Docker Engine can run a plan with an image.

Takes a plan and an image's name, gives the plan with the image's id; asks the Docker Engine. If the plan names own
code, one container is started in which it is loaded.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from testbed.code import place_words
from testbed.engines.fabric.config import NATIVE, PYTHON, wanted_plane
from testbed.engines.fabric.native_plane.library import slower
from testbed.errors import PreflightRefused, TestbedError
from testbed.experiment.attached import own_code, own_files
from testbed.image.code import missing_files
from testbed.image.engine_client import connected, engine_address
from testbed.image.facts import (
    PYTHON_LABEL,
    TORCH_LABEL,
    VERSION_LABEL,
    id_of,
    labels_of,
    temporary_container,
    why_not_this_testbed,
)
from testbed.image.packages import CORE_COMPILER, versions_in
from testbed.memory import available_bytes
from testbed.node.data.store import cache_folder
from testbed.plan.containers import PART_PIDS, limits_of, models_bytes
from testbed.plan.model import DataPlaneChoice, RunPlan
from testbed.runtimes.containers.check_code import CodeFault
from testbed.runtimes.containers.container_paths import ContainerPaths
from testbed.runtimes.docker.containers import FOLDER_LABEL, PART_LABEL, RUN_LABEL, isolation_options
from testbed.runtimes.docker.leftovers import refuse_if_there
from testbed.runtimes.runtime import FABRIC
from testbed.units import size_for_people

if TYPE_CHECKING:
    from docker import DockerClient

IMAGE = "image"
"""Key of the image's id among a plan's versions."""
_QUICK_S = 3.0
"""A Docker Engine that takes longer to answer is not chosen by default."""
_PROCESS_BYTES = 185_000_000
"""Measured memory use of a container. The rest of its limit is seldom used."""
WORD = "check"
_INSIDE = ContainerPaths()
_TIMEOUT_S = 300
_NO_MODULE = "ModuleNotFoundError"


def check_engine_and_image(
    plan: RunPlan, image: str, folder: Path, say: Callable[[str], None], *, force: bool
) -> RunPlan:
    """The plan with the image's id, which stays valid when its tag moves to another image.

    `folder` is the future run directory.
    """
    with connected() as engine:
        found = id_of(engine, image)
        if found is not None and (words := why_not_this_testbed(engine, image)):
            say(f"warning: {words}")
        refuse_if_there(engine, folder.resolve())
        if found is None:
            raise PreflightRefused(f"the Docker Engine has no image {image}", f"build it: testbed build --tag {image}")
        _check_files(engine, plan, image)
        check_code(engine, plan, image, folder.resolve())
        _check_processors(engine, plan)
        versions = _versions(labels_of(engine, found), versions_in(engine, found))
    _check_memory(plan, say, force=force)
    return plan.model_copy(update={"versions": {**versions, IMAGE: found}})


def data_plane_in(image: str, asked: str | None, warn: Callable[[str], None]) -> DataPlaneChoice:
    """The data plane that the fabric will have in a container of this image; unknown if the image is not there yet.

    Refuses an image without the compiled core if that is asked for; warns if it would be taken.
    """
    name = wanted_plane(asked)
    if name == PYTHON:
        return DataPlaneChoice(asked=name, used=PYTHON)
    try:
        with connected() as engine:
            found = id_of(engine, image)
            has_core = found is not None and CORE_COMPILER in versions_in(engine, found)
    except TestbedError:  # `check_engine_and_image` tells
        found, has_core = None, False
    if found is None or has_core:
        return DataPlaneChoice(asked=name, used=NATIVE if has_core else None)
    why, what_to_do = f"the image {image} has no compiled core", f"build it anew: testbed build --tag {image}"
    if name == NATIVE:
        raise PreflightRefused(why, f"{what_to_do}; or leave out {FABRIC.flag}")
    warn(f"warning: {slower(why, what_to_do)}")
    return DataPlaneChoice(asked=name, used=PYTHON)


def _versions(labels: Mapping[str, str], inside: Mapping[str, str]) -> dict[str, str]:
    """Versions of the software in the image, as far as it records them."""
    told = {
        "testbed": labels.get(VERSION_LABEL),
        "python": inside.get("python") or labels.get(PYTHON_LABEL),
        "torch": inside.get("torch") or labels.get(TORCH_LABEL),
        "numpy": inside.get("numpy"),
    }
    return {name: version for name, version in sorted(told.items()) if version}


def _check_files(engine: DockerClient, plan: RunPlan, image: str) -> None:
    """Refuses if a file that learners read is not in the image, or differs from the plan's."""
    own = {name: plan.inputs.get(name) for name in own_files(plan.experiment)}
    missing = missing_files(engine, image, own) if own else []
    if not missing:
        return
    words = (
        f"{each.file} is not as it was when the image {image} was built"
        if each.is_other
        else f"{each.file} is not in the image {image}"
        for each in missing
    )
    files = [each.file for each in missing]
    build = [word for name in own if name.endswith(".py") for word in ("--algorithm", name)]
    hint = f"build it in: {shlex.join(['testbed', 'build', '--tag', image, *build])}"
    if not all(name.endswith(".py") for name in files):
        hint = "COPY it in the Dockerfile to where the plan has it, and build again"
    else:
        hint += " (it then has this code only)"
    raise PreflightRefused("; ".join(words), f"{hint}; or take --runtime local")


def _check_processors(engine: DockerClient, plan: RunPlan) -> None:
    """Refuses a processor limit above the machine's count, even if forced: Docker creates no such container."""
    there = int(engine.api.info()["NCPU"])
    limits = limits_of(plan, plan.load_topology())
    most, node = max((limit.processors or 0.0, node.name) for limit, node in zip(limits, plan.nodes, strict=True))
    if most > there:
        raise PreflightRefused(
            f"{node} is to have {most:g} processors (`cpus` in the topology); the Docker Engine's machine has {there}, "
            "and no container may have more",
            f"give it at most {there} there; or take --runtime local",
        )


def _check_memory(plan: RunPlan, say: Callable[[str], None], *, force: bool) -> None:
    """Refuses if the containers need more memory than is free. Each loads torch for itself."""
    there, count = available_bytes(), len(plan.nodes)
    learners = sum(_PROCESS_BYTES + models_bytes(plan, node.rank) for node in plan.nodes)
    needed = learners + _PROCESS_BYTES
    fitting = max(0, there - _PROCESS_BYTES) * count // learners
    words = (
        f"{count} containers need about {size_for_people(needed)}, {size_for_people(learners // count)} each and "
        f"{size_for_people(_PROCESS_BYTES)} for control, and {size_for_people(there)} are free: {fitting} fit"
    )
    if needed <= there:
        if 2 * count > fitting:
            say(words)
        return
    if not force:
        raise PreflightRefused(
            f"this machine has too little memory: {words}",
            "take fewer nodes, or --runtime local, where they share most of it, or --force it",
        )
    say(f"warning: {words}")


def why_no_containers(image: str) -> str | None:
    """Why containers are not the default runtime; None if a Docker Engine on this machine has the image.

    An image that could be built from cached packages does not count: only the user decides to build one.
    """
    address = engine_address()
    kind, _, path = address.partition("://")
    if kind != "unix":
        return f"the Docker Engine at {address} may be on another machine"
    if os.path.exists(path) and not os.access(path, os.R_OK | os.W_OK):
        return f"no permission to use the Docker Engine at {address}"
    try:
        with connected(_QUICK_S) as engine:
            if id_of(engine, image) is not None:
                return None
    except TestbedError as problem:
        return problem.message
    return f"the Docker Engine has no image {image}"


def check_code(engine: DockerClient, plan: RunPlan, image: str, folder: Path) -> None:
    """Refuses code that cannot be loaded in the image. `folder` is the future run directory."""
    from docker import types
    from requests.exceptions import ConnectionError as NoAnswer
    from requests.exceptions import ReadTimeout

    names, data = list(own_code(plan.experiment)), cache_folder().absolute()
    if not names:
        return
    host = engine.api.create_host_config(
        **isolation_options(),
        pids_limit=PART_PIDS,
        mem_limit=max(limit.memory_bytes for limit in limits_of(plan, plan.load_topology())),
        mounts=[types.Mount(str(_INSIDE.data), str(data), type="bind", read_only=True)] if data.is_dir() else [],
    )
    how = {
        "host_config": host,
        "user": f"{os.getuid()}:{os.getgid()}",
        "environment": {"TESTBED_DATA": str(_INSIDE.data)},
        "labels": {RUN_LABEL: plan.run_id, FOLDER_LABEL: str(folder), PART_LABEL: WORD},
    }
    with temporary_container(engine, image, [WORD, *names], more=how) as container:
        engine.api.start(container)
        try:
            ended = int(engine.api.wait(container, timeout=_TIMEOUT_S)["StatusCode"])
        except (ReadTimeout, NoAnswer):
            words = f"the code is not loaded in the image {image} within {_TIMEOUT_S} s"
            raise PreflightRefused(words, "does it wait for something while it is imported?") from None
        said = engine.api.logs(container, stdout=True, stderr=False) if ended else b""
        last = engine.api.logs(container, stdout=False, stderr=True, tail=1) if ended else b""
    if not ended:
        return
    try:
        wrong = msgspec.json.decode(said, type=CodeFault)
    except msgspec.MsgspecError:
        wrong = CodeFault(last.decode(errors="replace").strip() or f"exit code {ended}")
    hint = "what it needs may be in another version there: testbed build --requirements FILE"
    if _NO_MODULE in wrong.message:
        hint = "name its package in algorithms/requirements.txt, or testbed build --requirements FILE, and build again"
    where = place_words(wrong.file, wrong.line)
    raise PreflightRefused(f"the code cannot be loaded in the image {image}: {where}{wrong.message}", hint)
