"""The base class of all algorithms. The same class runs in virtual time and over real sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from testbed.node.state import NOTHING, State

if TYPE_CHECKING:
    from testbed.node.node import Node
    from testbed.node.sharing.base import Sharing


ALL_NEIGHBOURS: Literal["neighbours"] = "neighbours"


class Algorithm:
    """The behaviour of a learner, round after round. Options of the experiment are passed as keyword arguments.

    `needs_server`, `waits` and `sends_to` tell the plan about an algorithm from outside the package (for built-in ones,
    `testbed/catalogue` has these facts). The class or its constructor sets them.
    """

    sharing: Sharing
    """Set before `run` is called."""
    needs_server: bool = False
    """One node serves instead of learning."""
    waits: bool | None = None
    """Every node waits for models of others in every round; None if unknown."""
    sends_to: int | Literal["neighbours"] | None = None
    """The number of neighbours that a node sends its model to in a round; None if unknown."""

    def __init__(self) -> None:
        """Takes no options. Without this method, looking up the signature of a class that has no constructor copies
        `sys.modules`, and thereby 5 MiB of memory that a node's process shares with its parent."""

    async def run(self, node: Node) -> None:
        """The whole work of a learner, from the start barrier to its end."""
        raise NotImplementedError(f"{type(self).__name__} has no `async def run(self, node)`")

    async def serve(self, node: Node) -> None:
        """The whole work of the node with the role `server`."""
        raise NotImplementedError(f"{type(self).__name__} has no `async def serve(self, node)`")

    def state(self) -> State:
        """What the algorithm remembers besides the model, to be restored after a crash with `rejoin: last`."""
        return NOTHING

    def restore(self, state: State) -> None:
        """Restores what `state` returned before the node went down; called before `run` or `serve`."""
