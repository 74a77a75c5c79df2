"""What control may ask of the fabric, and what it is told.

Takes requests, gives answers; touches nothing but the fabric that it is given (`Ability`).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Protocol

from testbed.engines.fabric.conditions import Conditions
from testbed.errors import UsageProblem
from testbed.protocol.fabric import (
    Begin,
    Capture,
    Cut,
    Denied,
    Detach,
    Done,
    FabricStatus,
    FromFabric,
    GetStatus,
    Heal,
    HoldDown,
    LetGo,
    Links,
    Partition,
    Quit,
    ResetLink,
    SetLink,
    ShowLink,
    ToFabric,
    Uncut,
    Watch,
)

_MOST_LINKS = 200
"""As many as certainly fit into a message."""


class Ability(Protocol):
    """What a request can make the fabric do."""

    conditions: Conditions

    def node_count(self) -> int: ...

    def begin(self, monotonic_s: float) -> None: ...

    def change_network(self) -> float:
        """The packets meet the conditions as they are now; gives since when."""
        ...

    def cut(self, ranks: Iterable[int], *, cut: bool) -> float: ...

    def detach(self, rank: int, why: str) -> None: ...

    def capture(self, rank: int, path: Path | None, asker: int) -> None:
        """Until it is ended, or the connection that has asked is closed."""
        ...

    def status(self, number: int) -> FabricStatus: ...

    def quit(self) -> None: ...

    def clock(self) -> float:
        """Of the host."""
        ...


def answer(request: ToFabric, asker: int, fabric: Ability) -> FromFabric:
    """Does what the connection with the number `asker` asks for, or says why not."""
    try:
        return _answer(request, asker, fabric)
    except UsageProblem as problem:
        reason = f"{problem.message} ({problem.hint})" if problem.hint else problem.message
        return Denied(request.number, reason)


def _answer(request: ToFabric, asker: int, fabric: Ability) -> FromFabric:
    number = request.number
    match request:
        case Begin():
            fabric.begin(request.monotonic_s)
        case SetLink():
            fabric.conditions.set_links(request)
            return Done(number, fabric.change_network())
        case ResetLink():
            fabric.conditions.reset_links(request.origin, request.dest, both=request.both)
            return Done(number, fabric.change_network())
        case HoldDown():
            fabric.conditions.hold_down(request.origin, request.dest, both=request.both)
            return Done(number, fabric.change_network())
        case LetGo():
            fabric.conditions.let_go(request.origin, request.dest, both=request.both)
            return Done(number, fabric.change_network())
        case ShowLink():
            links = fabric.conditions.show_links(request.origin, request.dest, both=request.both)
            shown = tuple(islice(links, _MOST_LINKS))
            return Links(number, shown, sum(1 for _ in links))
        case Partition():
            fabric.conditions.divide(request.name, [_known(group, fabric) for group in request.groups])
            return Done(number, fabric.change_network())
        case Heal():
            if not fabric.conditions.heal(request.name):
                raise UsageProblem(f"there is no partition {request.name!r}")
            return Done(number, fabric.change_network())
        case Cut() | Uncut():
            return Done(number, fabric.cut(_known(request.ranks, fabric), cut=isinstance(request, Cut)))
        case Detach():
            for rank in _known(request.ranks, fabric):
                fabric.detach(rank, "asked for")
        case Capture():
            (rank,) = _known((request.rank,), fabric)
            fabric.capture(rank, Path(request.path) if request.path is not None else None, asker)
        case GetStatus():
            return fabric.status(number)
        case Quit():
            fabric.quit()
        case Watch():
            pass
    return Done(number, fabric.clock())


def _known(ranks: tuple[int, ...], fabric: Ability) -> tuple[int, ...]:
    count = fabric.node_count()
    for rank in ranks:
        if not 0 <= rank < count:
            raise UsageProblem(f"there is no rank {rank}", f"ranks are 0 to {count - 1}")
    return ranks
