"""How `deploy` follows containers: what a person is told meanwhile, and how they end the run.

Takes a plan and its run directory, gives an `Outcome`; asks the Engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from testbed.cli.progress_view import progress_view, words_of_start
from testbed.node.data.store import cache_folder
from testbed.runtimes.docker.preflight import IMAGE
from testbed.runtimes.docker.run import DockerRun
from testbed.runtimes.docker.socket_places import Sockets

if TYPE_CHECKING:
    from testbed.cli.run_signals import RunSignals
    from testbed.control.outcome import Outcome
    from testbed.plan.model import RunPlan
    from testbed.rundir import RunDirectory


def run_containers(
    plan: RunPlan,
    directory: RunDirectory,
    signals: RunSignals,
    *,
    quiet: bool,
    say: Callable[[str], None],
    sockets: Sockets = Sockets.AUTO,
    leave: bool = False,
) -> Outcome | None:
    """How it ended; nothing where it is to go on without us, and does."""
    with progress_view(quiet=quiet) as view:

        def started(count: int, of: int) -> None:
            view.starting(words_of_start(count, of))
            if count == of:
                say(f"started {of} containers; now every learner's loads torch for itself")

        whole = DockerRun(
            plan,
            directory,
            image=plan.versions[IMAGE],
            data=cache_folder(),
            sockets=sockets,
            tell=view.tell,
            begun=lambda seconds: say(f"all nodes began after {seconds:.1f}s"),
            started=started,
            say=say,
        )
        signals.end_with(whole.interrupt)
        return whole.run(leave=leave)
