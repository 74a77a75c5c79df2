"""Has the researcher's code loaded in one container of the image, before there are many that would all fail.

Takes a plan and its image, raises PreflightRefused with the place in the code; starts a container, which is gone
afterwards: without a network, without privileges, and with nothing of this machine in sight.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from testbed.code import place_words
from testbed.errors import PreflightRefused
from testbed.experiment.attached import own_code
from testbed.image.passing_container import passing_container
from testbed.node.data.store import cache_folder
from testbed.plan.containers import PART_PIDS, limits_of
from testbed.plan.model import RunPlan
from testbed.runtimes.containers.check_code import Wrong
from testbed.runtimes.containers.inside import Inside
from testbed.runtimes.docker.containers import FOLDER_LABEL, PART_LABEL, RUN_LABEL, closed

if TYPE_CHECKING:
    from docker import DockerClient

WORD = "check"
_INSIDE = Inside()
_PATIENCE_S = 300
_NO_MODULE = "ModuleNotFoundError"


def check_code(engine: DockerClient, plan: RunPlan, image: str, folder: Path) -> None:
    """Whatever it is that fails there, it fails for all learners. The run will be in `folder`."""
    from docker import types
    from requests.exceptions import ConnectionError as NoAnswer
    from requests.exceptions import ReadTimeout

    names, data = list(own_code(plan.experiment)), cache_folder().absolute()
    if not names:
        return
    host = engine.api.create_host_config(
        **closed(),
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
    with passing_container(engine, image, [WORD, *names], more=how) as container:
        engine.api.start(container)
        try:
            ended = int(engine.api.wait(container, timeout=_PATIENCE_S)["StatusCode"])
        except (ReadTimeout, NoAnswer):
            words = f"the code is not loaded in the image {image} within {_PATIENCE_S} s"
            raise PreflightRefused(words, "does it wait for something while it is imported?") from None
        said = engine.api.logs(container, stdout=True, stderr=False) if ended else b""
        last = engine.api.logs(container, stdout=False, stderr=True, tail=1) if ended else b""
    if not ended:
        return
    try:
        wrong = msgspec.json.decode(said, type=Wrong)
    except msgspec.MsgspecError:
        wrong = Wrong(last.decode(errors="replace").strip() or f"exit code {ended}")
    hint = "what it needs may be in another version there: testbed build --requirements FILE"
    if _NO_MODULE in wrong.message:
        hint = "name its package in algorithms/requirements.txt, or testbed build --requirements FILE, and build again"
    where = place_words(wrong.file, wrong.line)
    raise PreflightRefused(f"the code cannot be loaded in the image {image}: {where}{wrong.message}", hint)
