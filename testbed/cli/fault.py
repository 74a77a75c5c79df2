"""`testbed fault`: causes faults of nodes, groups of nodes or links in a live run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from testbed.cli.link_hint import neighbours_told
from testbed.cli.quantity import Quantity
from testbed.cli.run_target import find_run, live_run, plan_of, ranks_of, results_option
from testbed.cli.verb_group import VerbGroup
from testbed.control.commands import Command, Conversation, Divide, Done, Flap, Inject, Reunite, conversation
from testbed.endpoints import Endpoint
from testbed.errors import TestbedError, UsageProblem
from testbed.runtimes.runtime import LiveRun
from testbed.topologies.model import NodeAction
from testbed.units import parse_duration_s

if TYPE_CHECKING:
    from testbed.plan.model import RunPlan

_Function = TypeVar("_Function", bound=Callable[..., Any])
_DURATION = Quantity("duration", parse_duration_s)
_COMES_BACK = "It comes back"

_run = click.argument("run", metavar="RUN", type=str)
_targets = click.argument("targets", metavar="NODE...", nargs=-1, required=True)


def _lasts(undone: str) -> Callable[[_Function], _Function]:
    return click.option("--for", "for_s", type=_DURATION, help=f"{undone} after so long, such as 10s.")


@click.group(name="fault", cls=VerbGroup)
def command() -> None:
    """Inject a fault into nodes, groups of nodes or links of a live run.

    NODE is a node, a service (all its nodes) or a pattern. Times are emulated seconds. With `--for` the command waits
    until the fault is undone; the run undoes it even if the command has ended. The run's `events.jsonl` has every fault
    with the times of the request and of its effect.

    \b
    Example:
      testbed fault crash my-run ireland.0 --for 10s
      testbed fault partition my-run ireland,frankfurt / tokyo --for 30s
      testbed fault flap my-run r-tokyo r-seoul --times 3 --every 2s
    """


def _of_nodes(action: str, undone_by: str | None, words: str) -> click.Command:
    """The subcommand for a fault of nodes."""

    def inject(run: str, targets: tuple[str, ...], results: Path, for_s: float | None = None) -> None:
        directory = find_run(run, results)
        live = live_run(directory)
        ranks = ranks_of(plan_of(directory), targets)
        is_back = action == NodeAction.JOIN or (for_s is not None and undone_by == _COMES_BACK)
        _do(live.control, Inject(action, ranks, for_s, _restarts(live, ranks) if is_back else {}))

    inject.__doc__ = f"{words}\n\n\b\nExample:\n  testbed fault {action} my-run ireland.0"
    made: Any = results_option(_run(_targets(inject)))
    if undone_by is not None:
        made = _lasts(undone_by)(made)
    return click.command(name=action)(made)


for _action, _undone_by, _words in (
    ("crash", _COMES_BACK, "Nodes end at once, and nothing of them leaves any more."),
    ("kill", _COMES_BACK, "Processes of nodes are killed; the kernel still closes their connections."),
    ("leave", _COMES_BACK, "Nodes finish sending, say goodbye, and end."),
    ("join", None, "Nodes come back, or join for the first time."),
    ("pause", "It goes on", "Processes of nodes are stopped; their network is not."),
    ("resume", None, "Paused nodes go on."),
    ("disconnect", "It is connected again", "All packets of the nodes are lost; the nodes go on."),
    ("reconnect", None, "Packets of the nodes are carried again."),
):
    command.add_command(_of_nodes(_action, _undone_by, _words))


@command.command()
@_run
@click.argument("groups", metavar="A,B / C,D...", nargs=-1, required=True)
@_lasts("It heals")
@results_option
def partition(run: str, groups: tuple[str, ...], results: Path, for_s: float | None) -> None:
    """Separate groups of nodes: they do not reach each other. A node in no group reaches all nodes.

    \b
    Example:
      testbed fault partition my-run ireland,frankfurt / tokyo.0,seoul --for 10s
    """
    endpoint, plan = _reach(run, results)
    _do(endpoint, Divide(_ranks_of_groups(plan, groups), for_s))


@command.command()
@_run
@click.argument("name", required=False)
@results_option
def heal(run: str, name: str | None, results: Path) -> None:
    """End a partition that was made by this command, by its name, or all of them.

    \b
    Example:
      testbed fault heal my-run
    """
    endpoint, _ = _reach(run, results)
    _do(endpoint, Reunite(name))


@command.command()
@_run
@click.argument("a", type=str)
@click.argument("b", type=str)
@click.option("--for", "for_s", type=_DURATION, default="1s", show_default=True, help="Duration of each outage.")
@click.option("--times", type=click.IntRange(1, 100_000), default=1, show_default=True, help="How often.")
@click.option("--every", "every_s", type=_DURATION, help="Time from one outage to the next.  [default: twice --for]")
@click.option("--one-way", is_flag=True, help="Only from A to B.")
@results_option
def flap(
    run: str, a: str, b: str, for_s: float, times: int, every_s: float | None, one_way: bool, results: Path
) -> None:
    """The links between A and B go down, and come up again. A and B are as in `testbed link`.

    \b
    Example:
      testbed fault flap my-run r-tokyo r-seoul --for 500ms --times 3 --every 2s
    """
    if for_s <= 0:
        raise UsageProblem("a link that flaps is down for a while", "--for 1s")
    if every_s is not None and times == 1:
        raise UsageProblem("--every is for more than one time", "--times 3 --every 2s")
    every_s = 2 * for_s if every_s is None else every_s
    if times > 1 and every_s <= for_s:
        raise UsageProblem("a link must come up before it goes down again", "make --every longer than --for")
    directory = find_run(run, results)
    with neighbours_told(directory, a, b):
        _do(live_run(directory).control, Flap(a, b, not one_way, for_s, every_s, times))


def _reach(run: str, results: Path) -> tuple[Endpoint, RunPlan]:
    directory = find_run(run, results)
    return live_run(directory).control, plan_of(directory)


def _restarts(live: LiveRun, ranks: Sequence[int]) -> dict[int, int]:
    """Raises the restart limit of nodes that shall come back by one, if the runtime has such a limit."""
    try:
        return live.allow_return(ranks)
    except TestbedError as problem:  # they may still come back: the run decides
        click.echo(f"warning: could not raise the restart limit: {problem.message}", err=True)
        return {}


def _do(endpoint: Endpoint, what: Command) -> None:
    """Requests the fault, prints the answer, and waits for the end of the fault if it has one."""
    with conversation(endpoint) as run:
        done = run.ask(what)
        assert isinstance(done, Done)  # noqa: S101 - the answer to these requests
        if done.until_t is None:
            click.echo(f"{done.what}, at {done.t:.2f}s", err=True)
            return
        click.echo(f"{done.what}, at {done.t:.2f}s; until {done.until_t:.2f}s", err=True)
        _wait(run, done.until_t)


def _wait(run: Conversation, until_t: float) -> None:
    try:
        undone = run.next()
    except KeyboardInterrupt:
        click.echo(f"not waiting any more; the run itself ends it at {until_t:.2f}s", err=True)
        raise
    if isinstance(undone, Done):
        click.echo(f"{undone.what}, at {undone.t:.2f}s", err=True)
    else:
        click.echo("the run ended before", err=True)


def _ranks_of_groups(plan: RunPlan, words: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Parses groups such as `A,B / C,D`; spaces separate as well as commas."""
    groups = [each.replace(",", " ").split() for each in " ".join(words).split("/")]
    if len(groups) < 2 or not all(groups):
        raise UsageProblem("a partition is between at least two groups of nodes", "A,B / C,D")
    ranks = tuple(ranks_of(plan, group) for group in groups)
    seen: dict[int, None] = {}
    for rank in (rank for group in ranks for rank in group):
        if rank in seen:
            raise UsageProblem(f"{plan.nodes[rank].name} is in two groups", "a node can be in one only")
        seen[rank] = None
    return ranks
