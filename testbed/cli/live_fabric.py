"""The connection to the fabric of a live run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.cli.run_target import live_run
from testbed.engines.fabric.requests import FabricLost
from testbed.errors import PreflightRefused, UsageProblem
from testbed.protocol.fabric import Denied, Done, FabricStatus, Links, ToFabric
from testbed.rundir import RunDirectory

if TYPE_CHECKING:
    from testbed.engines.fabric.start import FabricConversation


@contextmanager
def live_fabric(run: RunDirectory) -> Iterator[FabricConversation]:
    """A connection to the fabric of a run; raises UsageProblem if there is none, or if it ends meanwhile."""
    from testbed.engines.fabric.start import FabricConversation

    endpoint = live_run(run).fabric
    try:
        if isinstance(endpoint, Path) and not endpoint.exists():
            raise PreflightRefused(f"the run {run.path.name} has no emulated network", "its engine is not the fabric")
    except PermissionError:
        raise UsageProblem("the run is another user's", "only the user who started it can reach its fabric") from None
    try:
        conversation = FabricConversation(endpoint)
    except FabricLost as problem:
        raise _over(run, problem) from None
    try:
        yield conversation
    except FabricLost as problem:
        raise _over(run, problem) from None
    finally:
        conversation.close()


def _over(run: RunDirectory, problem: FabricLost) -> UsageProblem:
    return UsageProblem(f"{run.path.name}: {problem.message}", "the run is over")


def ask(fabric: FabricConversation, make: Callable[[int], ToFabric]) -> Done | Links | FabricStatus:
    """The fabric's answer to a request; raises UsageProblem if the fabric refuses it."""
    answer = fabric.ask(make)
    if isinstance(answer, Denied):
        raise UsageProblem(answer.reason)
    return answer
