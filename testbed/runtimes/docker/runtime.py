"""The runtime `docker`: every learner runs in a container of a Docker Engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.errors import PreflightRefused, UsageProblem
from testbed.image.facts import DEFAULT_TAG, may_mean_image
from testbed.linux import NEED_LINUX, has_unix_sockets, need_linux
from testbed.runtimes.docker.socket_places import Sockets
from testbed.runtimes.runtime import (
    DETACH,
    FABRIC,
    SHAPED,
    TIME_SCALE,
    UNSEEN,
    Check,
    Checking,
    Console,
    Facts,
    Given,
    LiveRun,
    Remains,
    RunOption,
    Runtime,
)

if TYPE_CHECKING:
    from testbed.control.outcome import Outcome
    from testbed.endpoints import Endpoint
    from testbed.errors import Finding
    from testbed.plan.model import DataPlaneChoice, PlannedNode, RunPlan
    from testbed.rundir import RunDirectory
    from testbed.runtimes.tracking.leftovers import Removed
    from testbed.runtimes.tracking.process_records import RunRecord
    from testbed.topologies.model import Topology
SOCKETS = RunOption(
    "--sockets",
    "How containers reach control: through sockets in the run directory (folder) or on Docker volumes (volume). "
    "auto uses the folder unless that is impossible, as with Docker Desktop.  [default: auto]",
    choices=tuple(each.value for each in Sockets),
)
_WITHOUT_CONTAINERS = "testbed verify TOPOLOGY, which brings up the same network without containers"


def _image(text: str) -> str:
    if not may_mean_image(text):
        raise ValueError(f"`{text}` cannot be an image's name: small letters, digits, dashes, as in my-image:1")
    return text


IMAGE = RunOption(
    "--image",
    f"Docker image of the nodes, as made by `testbed build`; implies --runtime docker.  [default: {DEFAULT_TAG}]",
    metavar="NAME",
    parse=_image,
    decides=True,
)


class DockerRuntime(Runtime):
    """Starts and removes the containers of a run. What runs inside them is in `containers`."""

    name = "docker"
    facts = Facts(
        "containers",
        engines=(SHAPED,),
        is_virtual=False,
        has_own_files=True,
        by_default="a Docker Engine answers and has the image",
    )
    options = (IMAGE, SOCKETS, FABRIC, TIME_SCALE, DETACH)

    def unsupported(self) -> PreflightRefused | None:
        return None if has_unix_sockets() else need_linux(f"runtime `{self.name}`")

    def why_not_default(self) -> str | None:
        if not has_unix_sockets():
            return NEED_LINUX
        from testbed.runtimes.docker.preflight import why_no_containers

        return why_no_containers(DEFAULT_TAG)

    def checks(self) -> Iterator[Check]:
        reason = self.why_not_default()
        if reason is None:
            found = f"a Docker Engine has {DEFAULT_TAG}: `deploy` takes containers by default"
            yield Check("containers", True, found)
        else:
            yield Check("containers", False, reason, "only runs in containers need a Docker Engine and `testbed build`")

    def ignored(self, topology: Topology, given: Given) -> Sequence[Finding]:
        """Images and commands of the topology, which containers would not run."""
        from testbed.targets.containers import foreign_programs

        return list(foreign_programs(topology, _named(given) or DEFAULT_TAG))

    def make_ready(self, given: Given, say: Callable[[str], None]) -> None:
        """Requires the image given by `--image`; else builds the default image from cached packages."""
        from testbed.image.build import have_image
        from testbed.image.facts import image_id

        named = _named(given)
        if named is None:
            have_image(DEFAULT_TAG, say)
        else:
            image_id(named)

    def data_plane(self, given: Given, asked: str | None, warn: Callable[[str], None]) -> DataPlaneChoice:
        from testbed.runtimes.docker.preflight import data_plane_in

        return data_plane_in(_named(given) or DEFAULT_TAG, asked, warn)

    def check(self, plan: RunPlan, how: Checking) -> RunPlan:
        """The plan with the image's id and versions."""
        from testbed.plan.time_scale import refuse_too_late_for_tcp
        from testbed.runtimes.docker.preflight import check_engine_and_image
        from testbed.runtimes.needs import meet, processor_needs

        refuse_too_late_for_tcp(plan)
        named = _named(how.given)
        if how.dry and named is None and _would_build(how.say):
            return plan
        plan = check_engine_and_image(plan, named or DEFAULT_TAG, how.folder, how.say, force=how.force)
        meet(list(processor_needs(plan, is_fitted=how.is_fitted)), how.say, force=how.force)
        return plan

    def run(self, plan: RunPlan, directory: RunDirectory, given: Given, console: Console) -> Outcome | None:
        from testbed.node.data.store import cache_folder
        from testbed.runtimes.docker.preflight import IMAGE as IMAGE_VERSION
        from testbed.runtimes.docker.run import DockerRun

        with console.watching() as view:

            def started(count: int, of: int) -> None:
                view.starting(_starting(count, of))
                if count == of:
                    console.say(f"started {of} containers; now every learner's loads torch for itself")

            whole = DockerRun(
                plan,
                directory,
                image=plan.versions[IMAGE_VERSION],
                data=cache_folder(),
                sockets=Sockets(str(given.get(SOCKETS.name) or Sockets.AUTO.value)),
                tell=view.tell,
                begun=lambda seconds: console.say(f"all nodes began after {seconds:.1f}s"),
                started=started,
                say=console.say,
            )
            console.end_with(whole.interrupt)
            return whole.run(leave=bool(given.get(DETACH.name)))

    def goes_on(self, run: RunDirectory) -> bool:
        from testbed.runtimes.docker import live
        from testbed.runtimes.tracking.leftovers import is_led_here
        from testbed.runtimes.tracking.process_records import read_record

        record = read_record(run)
        return record is not None and (is_led_here(record) or (record.unseen and live.is_led(run)))

    def is_seen(self, run: RunDirectory) -> bool:
        from testbed.runtimes.tracking.process_records import read_record

        record = read_record(run)
        return record is None or not record.unseen

    def attach(self, run: RunDirectory) -> LiveRun:
        from testbed.runtimes.tracking.process_records import read_record

        record = read_record(run)
        if record is None or not self.goes_on(run):
            raise UsageProblem(f"the run {run.path.name} does not go on", "`testbed status` lists those that do")
        return _LiveContainers(run, record)

    def remains(self, run: RunDirectory) -> Remains:
        """Runs of Compose count, too: their sockets are created long before their containers start."""
        from testbed.runtimes.containers.container_paths import outcome_file, sockets_of
        from testbed.runtimes.docker.leftovers import is_known
        from testbed.runtimes.tracking.leftovers import living
        from testbed.runtimes.tracking.process_records import record_of

        if living(run):
            return Remains.GOES_ON
        files = (record_of(run), sockets_of(run), outcome_file(run))
        return Remains.LEFT if any(each.exists() for each in files) or is_known(run) else Remains.NOTHING

    def destroy(self, run: RunDirectory) -> Removed:
        from testbed.runtimes.docker import leftovers

        return leftovers.destroy(run)

    def strays(self) -> list[RunDirectory]:
        from testbed.runtimes.docker import leftovers

        return leftovers.strays()


class _LiveContainers(LiveRun):
    def __init__(self, run: RunDirectory, record: RunRecord) -> None:
        super().__init__(run)
        self._record = record

    @property
    def control(self) -> Endpoint:
        from testbed.runtimes.tracking.process_records import commands_socket

        return self._endpoint(commands_socket)

    @property
    def fabric(self) -> Endpoint:
        from testbed.engines.fabric.sockets import control_socket

        return self._endpoint(control_socket)

    def _endpoint(self, place: Callable[[Path], Path]) -> Endpoint:
        if not self._record.on_volumes:
            return place(Path(self._record.sockets))
        from testbed.runtimes.docker.relayed import relayed

        return relayed(self.run, place)

    def pids(self, rank: int | None = None) -> dict[int, int]:
        """The first processes of the learners' containers."""
        from testbed.runtimes.docker import live

        return live.pids_of_nodes(self.run, rank)

    def exec(self, node: PlannedNode, words: Sequence[str]) -> int:
        """Runs a program of this machine if the user is root, who may enter the network; else one of the image."""
        from testbed.runtimes.docker.command_inside import run_inside
        from testbed.runtimes.enter import become_command, has_network

        pid = self.pids(node.rank).get(node.rank)
        if pid is None:
            raise UsageProblem(f"{node.name} does not live now")
        if pid != UNSEEN and not has_network(pid):
            raise UsageProblem(f"{node.name} is not in the network now", "it has not begun yet, or is over")
        if os.geteuid() != 0 or pid == UNSEEN:
            return run_inside(self.run, node.rank, words)
        return become_command(pid, self.run, self._record.mark, words)

    def may_enter_networks(self) -> None:
        if os.geteuid() != 0:
            raise PreflightRefused(
                "only root may measure in a run of containers: that needs to enter their networks, which belong to the "
                "Docker Engine (CAP_SYS_ADMIN)",
                f"run it as root (sudo); or {_WITHOUT_CONTAINERS}",
            )

    def allow_return(self, ranks: Sequence[int]) -> dict[int, int]:
        from testbed.runtimes.docker.live import allow_one_more

        return allow_one_more(self.run, ranks)

    def capture_file(self, path: Path) -> tuple[Path, Path]:
        """The fabric's container writes to its own folder."""
        from testbed.runtimes.containers.container_paths import ContainerPaths

        engine = Path("engine", f".{path.name}.{os.getpid()}.tmp")
        return self.run.path / engine, ContainerPaths().run.path / engine


def _named(given: Given) -> str | None:
    image = given.get(IMAGE.name)
    return None if image is None else str(image)


def _would_build(say: Callable[[str], None]) -> bool:
    """Whether a real run would build its image first; a dry run does not."""
    from testbed.image.build import request_at_hand
    from testbed.image.engine_client import connected
    from testbed.image.facts import id_of

    with connected() as engine:
        would = id_of(engine, DEFAULT_TAG) is None and request_at_hand(engine, DEFAULT_TAG) is not None
    if would:
        say(f"the run would build the image {DEFAULT_TAG} first, since all packages for it are here")
    return would


def _starting(started: int, of: int) -> str:
    """A line about starting containers, for the progress display."""
    return f"starting containers {started}/{of}" if started < of else f"waiting for attachment · {of} containers"
