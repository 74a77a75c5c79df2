"""Runs whose nodes are containers, for the contract: whole ones, and ones that go on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from testbed.control.outcome import Outcome
from testbed.image.build import Request, build_image
from testbed.image.facts import image_id
from testbed.node.data.store import cache_folder
from testbed.plan.files import to_text, write_plan
from testbed.plan.model import RunPlan
from testbed.rundir import RunDirectory, create_run
from testbed.runtimes.docker.run import DockerRun
from testbed.runtimes.processes.engine import FABRIC
from tests.cli.in_process import command
from tests.contract.runtimes import all_have_done_a_round, deploying
from tests.runtimes.scratch_run import PATIENCE_S, until

_NUMBERS = count(1)


class InContainers:
    name = "docker"
    refuses = frozenset[str]()
    has_packets = True
    new_life_s = 10.0
    """A container is started anew, and loads torch for itself."""
    notices_s = 5.0
    """A container ends more slowly than a process."""

    def __init__(self, image: str) -> None:
        """`image` is its name, which nothing needs to have before the first run."""
        self._image = image

    def knowing(self, code: Path) -> InContainers:
        with_code = f"{self._image}-code"
        build_image(Request(tag=with_code, algorithms=(code,)), lambda _: None, lambda _: None)
        return InContainers(with_code)

    def run(self, plan: RunPlan, folder: Path) -> tuple[RunDirectory, Outcome]:
        plan = self._contained(plan)
        directory = create_run(folder, "run")
        write_plan(directory, plan)
        outcome = DockerRun(plan, directory, image=plan.versions["image"], data=cache_folder()).run()
        assert outcome is not None
        return directory, outcome

    @contextmanager
    def going_on(self, plan: RunPlan, folder: Path) -> Iterator[RunDirectory]:
        plan = self._contained(plan)
        (folder / "plan.json").write_text(to_text(plan))
        run = RunDirectory(folder / "results" / plan.run_id)
        try:
            with deploying(folder, plan.run_id, "--detach", "--image", self._image) as process:
                _, said = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 0, said
            until(lambda: all_have_done_a_round(run, plan))
            yield run
        finally:
            if run.path.exists():
                assert command("destroy", str(run.path)).exit_code == 0

    def _contained(self, plan: RunPlan) -> RunPlan:
        """The plan of the same run with containers, which are called after it."""
        versions = {**plan.versions, "image": image_id(self._image)}
        name = f"test-{os.getpid()}-{next(_NUMBERS)}"
        return plan.model_copy(update={"runtime": "docker", "engine": FABRIC, "run_id": name, "versions": versions})
