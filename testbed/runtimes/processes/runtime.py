"""The runtime `local`: real processes on this machine, each in a network of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from testbed.errors import CouldNotStart, ExitCode, PreflightRefused, UsageProblem
from testbed.linux import HAS_LINUX, NEED_LINUX, is_linux, need_linux
from testbed.runtimes.runtime import (
    DETACH,
    ENGINE,
    FABRIC,
    SHAPED,
    TIME_SCALE,
    UNSHAPED,
    Check,
    Checking,
    Console,
    Denial,
    Facts,
    Given,
    LiveRun,
    Remains,
    Runtime,
)

if TYPE_CHECKING:
    from testbed.control.outcome import Outcome
    from testbed.endpoints import Endpoint
    from testbed.plan.model import DataPlaneChoice, PlannedNode, RunPlan
    from testbed.rundir import RunDirectory, TakenRun
    from testbed.runtimes.tracking.leftovers import Removed
    from testbed.runtimes.tracking.process_records import RunRecord

_ORDINARY = "run testbed as an ordinary user, or with --runtime docker"
_MOST_SAID = 2000
_NODE = "node "
_READ_ONLY = "Read-only file system"
_DENIED = re.compile(rf"(No such file or directory|{_READ_ONLY}): '([^']+)'")


class LocalRuntime(Runtime):
    """Forks learners from a zygote; `run` in this folder is a run."""

    name = "local"
    facts = Facts("real processes", engines=(SHAPED, UNSHAPED), is_virtual=False, plans_apart=True)
    options = (ENGINE, FABRIC, TIME_SCALE, DETACH)

    def unsupported(self) -> PreflightRefused | None:
        return None if is_linux() else need_linux(f"runtime `{self.name}`")

    def denial(self, given: Given) -> Denial | None:
        if not is_linux():
            return Denial(NEED_LINUX, HAS_LINUX)
        if given.get(ENGINE.name) == UNSHAPED:
            return None
        from testbed.engines.namespace import TcpSettings
        from testbed.engines.network_check import what_is_denied

        denied = what_is_denied(TcpSettings())
        if denied is None:
            return None
        way_out = denied.way_out or "`testbed doctor` looks at what it takes"
        return Denial(denied.message, f"{way_out}; {ENGINE.flag} {UNSHAPED} is plain loopback, unshaped")

    def checks(self) -> Iterator[Check]:
        if not is_linux():
            yield Check("emulated network", False, NEED_LINUX, HAS_LINUX, True)
            return
        from testbed.runtimes.processes.machine_checks import checks

        yield from checks()

    def data_plane(self, given: Given, asked: str | None, warn: Callable[[str], None]) -> DataPlaneChoice:  # noqa: ARG002
        from testbed.engines.fabric.config import wanted_plane
        from testbed.engines.fabric.planes import choose
        from testbed.plan.model import DataPlaneChoice

        chosen = choose(asked)
        if chosen.remark:
            warn(f"warning: {chosen.remark}")
        return DataPlaneChoice(asked=wanted_plane(asked), used=chosen.name)

    def check(self, plan: RunPlan, how: Checking) -> RunPlan:
        """Shaping fails closed: what the network needs cannot be forced. A dry run does not look at the machine."""
        from testbed.plan.time_scale import refuse_too_late_for_tcp
        from testbed.runtimes.processes.learner_view import shown_too

        if plan.engine != UNSHAPED:
            refuse_too_late_for_tcp(plan)
        list(shown_too())  # raises for folders that learners cannot be shown
        if how.dry:
            return plan
        from testbed.engines.namespace import TcpSettings
        from testbed.engines.network_check import what_is_denied
        from testbed.runtimes.needs import meet, needs_of, processor_needs

        if plan.engine != UNSHAPED:
            network = plan.experiment.network
            denied = what_is_denied(TcpSettings(congestion=network.congestion, idle_restart=network.idle_restart))
            if denied is not None:
                raise denied
        meet([*needs_of(plan), *processor_needs(plan, is_fitted=how.is_fitted)], how.say, force=how.force)
        for warning in _trust(plan, how.folder.parent):
            how.say(f"warning: {warning}")
        return plan

    def run(self, plan: RunPlan, directory: TakenRun, given: Given, console: Console) -> Outcome | None:
        if given.get(DETACH.name):
            _start_daemon(directory, console)
            return None
        from testbed.runtimes.processes.local_backend import LocalBackend
        from testbed.runtimes.processes.run import RealRun

        with console.watching() as view:
            whole = RealRun(
                plan,
                directory,
                LocalBackend(),
                tell=view.tell,
                begun=lambda seconds: console.say(f"all nodes began after {seconds:.1f}s"),
                say=console.say,
            )
            console.end_with(whole.interrupt)
            return whole.run()

    def hints(self, outcome: Outcome) -> Iterator[str]:
        """For learners that are kept from files of this machine which their code wants."""
        from testbed.code import VISIBLE

        told = [each.failure.message for each in outcome.failures]
        denied = {found[1]: found[2] for message in told if (found := _DENIED.search(message)) is not None}
        for why, name in denied.items():
            path = Path(name).absolute()
            if why == _READ_ONLY:
                yield f"learners write to `node.folder` only, and to /tmp, which goes with them: not to {path}"
            elif path.exists():
                yield f"{path} is there, but learners do not see it; {VISIBLE}={path.parent} shows it to them"

    def goes_on(self, run: RunDirectory) -> bool:
        from testbed.runtimes.tracking.leftovers import is_led_here
        from testbed.runtimes.tracking.process_records import read_record

        record = read_record(run)
        return record is not None and is_led_here(record)

    def attach(self, run: RunDirectory) -> LiveRun:
        from testbed.runtimes.tracking.leftovers import is_led_here
        from testbed.runtimes.tracking.process_records import read_record

        record = read_record(run)
        if record is None or not is_led_here(record):
            raise UsageProblem(f"the run {run.path.name} does not go on", "`testbed status` lists those that do")
        return _LiveProcesses(run, record)

    def remains(self, run: RunDirectory) -> Remains:
        from testbed.control.log import ended_before_start
        from testbed.runtimes.tracking.process_records import read_record, record_of

        if read_record(run) is None:
            return Remains.COPY if record_of(run).exists() else Remains.NOTHING
        if self.goes_on(run):
            return Remains.GOES_ON
        return Remains.NOTHING if ended_before_start(run) else Remains.LEFT

    def destroy(self, run: RunDirectory) -> Removed:
        from testbed.runtimes.tracking.leftovers import destroy

        return destroy(run)


class _LiveProcesses(LiveRun):
    def __init__(self, run: RunDirectory, record: RunRecord) -> None:
        super().__init__(run)
        self._record = record

    @property
    def control(self) -> Endpoint:
        from testbed.runtimes.tracking.process_records import commands_socket

        return commands_socket(Path(self._record.sockets))

    @property
    def fabric(self) -> Endpoint:
        from testbed.engines.fabric.sockets import control_socket

        return control_socket(Path(self._record.sockets))

    def pids(self, rank: int | None = None) -> dict[int, int]:
        from testbed.runtimes.tracking.leftovers import is_alive

        nodes = {
            int(each.name.removeprefix(_NODE)): each.pid
            for each in self._record.processes
            if each.name.startswith(_NODE) and is_alive(each)
        }
        return nodes if rank is None else {each: pid for each, pid in nodes.items() if each == rank}

    def exec(self, node: PlannedNode, words: Sequence[str]) -> NoReturn:
        from testbed.runtimes.enter import become_command, shares_network

        pid = self.pids(node.rank).get(node.rank)
        if pid is None:
            raise UsageProblem(f"{node.name} does not live now")
        if shares_network(pid):
            has_none = f"{node.name} has no network of its own"
            if _engine_of(self.run) == UNSHAPED:
                raise PreflightRefused(f"{has_none}: its engine is `{UNSHAPED}`")
            raise UsageProblem(f"{has_none}: it is only just starting")
        become_command(pid, self.run, self._record.mark, words)


def _engine_of(run: RunDirectory) -> str | None:
    from testbed.collect.plan_head import read_plan_head

    return read_plan_head(run.plan)[0].engine


def _trust(plan: RunPlan, results: Path) -> Iterator[str]:
    """What the code of others could do on this machine that it should not."""
    from testbed.experiment.attached import own_code
    from testbed.isolation.sandbox_check import sandbox_support

    there = next(each for each in (results.absolute(), *results.absolute().parents) if each.is_dir())
    how = sandbox_support(str(there), tempfile.gettempdir())
    if how.denied is not None:
        who = "of root" if os.geteuid() == 0 else "of yours"
        yield f"learners can read and change all files {who}: this machine denies what would help ({how.denied})"
    elif how.still_root is not None:
        yield f"learners are root, though they see few files, since this machine denies more ({how.still_root})"
    if os.geteuid() == 0 and any(own_code(plan.experiment)):
        yield f"as root, deploy itself has loaded the code that the experiment names, to make the plan: {_ORDINARY}"


# -- a run that goes on without its command ----------------------------------------------------------------------------


class _NeverBegan(CouldNotStart):
    """The run's own process ended before any node began."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        known = exit_code in list(ExitCode)
        self.exit_code = ExitCode(exit_code) if known else ExitCode.NOT_STARTED


def _start_daemon(directory: TakenRun, console: Console) -> None:
    """Returns when all nodes have begun; raises what the process that leads the run ended with if they could not."""
    from testbed.engines.spawn import spawn_module
    from testbed.runtimes.processes.daemon import BEGUN

    log = directory.path / "runtime" / "control.log"
    try:
        log.parent.mkdir(exist_ok=True)
        with log.open("ab") as errors:
            # It holds the directory for as long as it lives: there is no record of the run before it has made one.
            process = spawn_module(
                "testbed.runtimes.processes.daemon",
                [str(directory.path.resolve())],
                stdout=subprocess.PIPE,
                stderr=errors,
                pass_fds=directory.holds,
            )
    except OSError as problem:
        raise CouldNotStart(f"cannot start the run's own process: {problem.strerror or problem}") from problem
    assert process.stdout is not None  # noqa: S101 - asked for above
    try:
        with process.stdout as said:
            begun = said.readline().decode()
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise
    if begun.startswith(BEGUN):
        console.say(f"all nodes began after {begun.removeprefix(BEGUN).strip()}s; the run goes on")
        process.returncode = 0  # it is not waited for: it outlives this command
        return
    status = process.wait()
    words = log.read_text(errors="replace").strip()[-_MOST_SAID:]
    if status < 0:  # it could not say so itself
        words = f"the run's control was killed by {signal.Signals(-status).name}" + (f"\n{words}" if words else "")
    raise _NeverBegan(words or "the run ended before it began", status if status > 0 else ExitCode.NOT_STARTED)
