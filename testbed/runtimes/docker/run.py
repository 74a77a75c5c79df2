"""A run of containers: one for every learner, one for control, one for the fabric.

Takes a plan and its run directory, gives an `Outcome`; starts the containers, follows control's progress, and removes
them. The run goes on without this process, which can detach.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.control.commands import Command, Conversation, Done, EndRun, Look, Seen, conversation
from testbed.control.log import ControlLog, last_word
from testbed.control.outcome import Outcome
from testbed.control.progress import Progress, Tell, unheard_words
from testbed.endpoints import Endpoint
from testbed.errors import TestbedError
from testbed.image.engine_client import DockerEngineOutage, DockerEngineSilent, connected
from testbed.journal import CannotWrite
from testbed.plan.model import RunPlan
from testbed.records import Over
from testbed.rundir import RunDirectory
from testbed.runtimes.containers.container_paths import outcome_file, sockets_of
from testbed.runtimes.containers.layout import lay_out_files
from testbed.runtimes.docker.container_set import ContainerSet, EndedContainer
from testbed.runtimes.docker.containers import FABRIC, name_of
from testbed.runtimes.docker.leftovers import DEPLOY, NotRemoved, remove_all_of
from testbed.runtimes.docker.relayed import relayed
from testbed.runtimes.docker.socket_places import Sockets
from testbed.runtimes.docker.start import ContainerStarter
from testbed.runtimes.docker.verdict import outcome_of
from testbed.runtimes.tracking.ownership import end_marked, held_open, new_mark
from testbed.runtimes.tracking.process_records import Places, commands_socket, process_record

if TYPE_CHECKING:
    from docker import DockerClient

_LOOK_S = 0.25
_DEAF_S = 2.0
"""Between requests to control until its log is seen. Files may take time to appear from another machine."""
_LAST_S, _LAST_UNBEGUN_S = 30.0, 3.0
"""How long the other containers may take to end after control. Before the start they may be waiting for control."""


class DockerRun:
    """One run; used once."""

    def __init__(
        self,
        plan: RunPlan,
        directory: RunDirectory,
        *,
        image: str,
        data: Path,
        sockets: Sockets = Sockets.AUTO,
        tell: Tell | None = None,
        begun: Callable[[float], None] | None = None,
        started: Callable[[int, int], None] = lambda _started, _of: None,
        say: Callable[[str], None] = lambda _: None,
        began_s: float | None = None,
    ) -> None:
        """Calls `started` with the counts of started and of all containers, `begun` with the start's seconds."""
        self._plan = plan
        self._directory = RunDirectory(directory.path.resolve())
        self._image = image
        self._tell = tell
        self._on_begun = begun
        self._began_s = time.monotonic() if began_s is None else began_s
        self._say = say
        self._unheard: tuple[str, ...] = ()
        self._outage = DockerEngineOutage(say)
        self._places = Places(self._directory, sockets_of(self._directory), new_mark())
        self._start = ContainerStarter(
            plan,
            self._directory,
            data,
            sockets,
            is_wanted=lambda: not self._wants_end,
            started=started,
            met=lambda: self._record(os.getpid()),
            say=say,
        )
        self._client: ControlClient | None = None
        self._deaf_until_s = 0.0
        self._wants_end = False
        self._was_asked = False
        self._has_begun = False

    def interrupt(self) -> None:
        """Ends the run soon, in good order. Safe to call from a signal handler."""
        self._wants_end = True

    def run(self, *, leave: bool = False) -> Outcome | None:
        """Runs until every container is removed. With `leave`, returns None when all nodes have begun.

        Raises PreflightRefused for what the machine denies; KeyboardInterrupt if interrupted before anything was
        started; DockerEngineSilent if the Docker Engine no longer answers and cannot remove the containers;
        NotRemoved if only the removal failed.
        """
        try:
            with held_open(self._directory.path):
                lay_out_files(self._plan, self._directory)
                self._record(os.getpid())  # first, so that `destroy` finds whatever comes after it
                ended = self._until_ended(leave=leave)
        except DockerEngineSilent as silent:
            hint = f"its containers may go on; `testbed destroy {self._directory.path}` removes them once it answers"
            raise DockerEngineSilent(silent.message, hint) from None
        except NotRemoved as left:
            self._places.remove()
            reason = left.__context__
            if reason is None:
                raise
            self._say(f"warning: {left.message}; {left.hint}")
            raise reason from None
        except BaseException as problem:
            self._places.remove()
            outcome_file(self._directory).unlink(missing_ok=True)  # control's, if it ended before a second Ctrl-C
            self._last_word("interrupted" if isinstance(problem, KeyboardInterrupt) else "failed")
            raise
        if ended is None:
            return None
        self._places.remove()
        was_away = self._outage.was_away and not self._was_asked
        outcome = outcome_of(self._directory, ended, was_away=was_away)
        if outcome.last is not None:
            self._tell_begun()  # the run was too short to be observed
        return outcome

    def _last_word(self, reason: str) -> None:
        """Logs the end of a run that never began, if control could not."""
        t, over = last_word(self._directory.events)
        if over is not None or self._has_begun:
            return
        with suppress(CannotWrite):
            log = ControlLog(self._directory.events)
            log.write(Over(t or 0.0, reason, finished=0, failed=0))
            log.close()

    def _until_ended(self, *, leave: bool) -> list[EndedContainer] | None:
        """How all containers ended, after removing them; None if they go on without this process."""
        has_left = False
        with connected() as engine:
            container_set = ContainerSet(engine, self._image, wanted=lambda: not self._wants_end)
            try:
                ids = self._start.start(engine, container_set)
                control = next(iter(ids.values()))
                self._record(None if self._start.unseen else self._outage.ask(lambda: container_set.pid(control)))
                self._follow(
                    container_set, control, ids[name_of(self._directory, self._plan.run_id, FABRIC)], leave=leave
                )
                if leave and self._has_begun and not self._wants_end:
                    has_left = True
                    return None
                return self._all_ended(container_set, list(ids.values()))
            finally:
                self._hang_up()
                if not has_left:
                    self._remove_all(engine)

    def _record(self, leader: int | None) -> None:
        """Records this process, and control's if it is visible, so that other commands find the run."""
        led = [] if leader is None else [process_record("control", leader)]
        processes = [process_record(DEPLOY, os.getpid()), *led]
        self._places.write_record(
            processes, on_volumes=self._start.on_volumes, unseen=self._start.unseen, runtime=self._plan.runtime
        )

    def _remove_all(self, engine: DockerClient) -> None:
        """Removes all containers, even after a second Ctrl-C: they would go on."""

        def remove_what_is_there() -> None:
            remove_all_of(engine, self._directory.path)

        try:
            self._outage.ask(remove_what_is_there)
        except KeyboardInterrupt:
            self._outage.ask(remove_what_is_there)
            raise
        finally:
            end_marked(self._places.mark, (os.geteuid(),))  # commands of users in the containers' networks

    # -- while it goes on ------------------------------------------------------------------------------------------

    def _follow(self, container_set: ContainerSet, control: str, fabric: str, *, leave: bool) -> None:
        """Returns when control has ended, or waits for a fabric that has failed."""
        while self._outage.ask(lambda: container_set.is_running(control), self._look):
            self._look()
            if leave and self._has_begun and not self._wants_end:
                return
            if not self._has_begun and self._outage.ask(lambda: container_set.has_failed(fabric), self._look):
                return
            time.sleep(_LOOK_S)

    def _look(self) -> bool:
        """Asks control for progress; gives whether it has answered. At the start and at the end it does not."""
        if not self._directory.events.exists() and time.monotonic() < self._deaf_until_s:
            return False  # control does not listen yet, and asking may start a process there
        self._deaf_until_s = time.monotonic() + _DEAF_S
        try:
            client = self._client = self._client or ControlClient(self._endpoint())
            if self._wants_end and not self._was_asked:
                client.ask(EndRun())
                self._was_asked = True
            seen = client.ask(Look())
        except TestbedError:
            return False
        if not isinstance(seen, Seen):
            return False
        if seen.phase != "starting":
            self._tell_begun()
        if new := tuple(each for each in seen.unheard if each not in self._unheard):
            self._say(unheard_words(new))
        self._unheard = seen.unheard
        if self._tell is not None and self._has_begun:
            self._tell(self._progress(seen))
        return True

    def _endpoint(self) -> Endpoint:
        if self._start.on_volumes:
            return relayed(self._directory, commands_socket)
        return self._places.commands_socket

    def _hang_up(self) -> None:
        if self._client is not None:
            self._client.close()

    def _tell_begun(self) -> None:
        """Reports the start, once."""
        if not self._has_begun and self._on_begun is not None:
            self._on_begun(time.monotonic() - self._began_s)
        self._has_begun = True

    def _progress(self, seen: Seen) -> Progress:
        return Progress(
            t=seen.t,
            rounds=seen.rounds,
            rounds_planned=seen.rounds_planned,
            time_planned_s=self._plan.experiment.stop.time_s,
            nodes=seen.nodes,
            done=seen.done,
            accuracy=seen.accuracy,
            loss=seen.loss,
            bytes_sent=seen.bytes_sent,
        )

    # -- the end ---------------------------------------------------------------------------------------------------

    def _all_ended(self, container_set: ContainerSet, ids: Sequence[str]) -> list[EndedContainer]:
        until_s = time.monotonic() + (_LAST_S if self._has_begun else _LAST_UNBEGUN_S)
        while (
            self._outage.ask(lambda: any(container_set.is_running(each) for each in ids)) and time.monotonic() < until_s
        ):
            time.sleep(_LOOK_S)
        return self._outage.ask(lambda: container_set.all_ended(ids))


class ControlClient:
    """A connection to one run's control, opened again after errors."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._held = ExitStack()
        self._conversation: Conversation | None = None

    def ask(self, command: Command) -> Done | Seen:
        """The answer to a command; raises TestbedError if there is none."""
        try:
            if self._conversation is None:
                self._conversation = self._held.enter_context(conversation(self._endpoint))
            return self._conversation.ask(command)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the connection; `ask` opens a new one."""
        self._conversation = None
        self._held.close()
