"""The seam of all algorithms: one class, written against `Node`, for virtual time and for real sockets alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from testbed.node.state import NOTHING, State

if TYPE_CHECKING:
    from testbed.node.node import Node
    from testbed.node.sharing.base import Sharing


ALL_NEIGHBOURS: Literal["neighbours"] = "neighbours"


class Algorithm:
    """What a learner does, round after round. Its options come from the experiment, as keyword arguments.

    `needs_server`, `waits` and `sends_to` are what a plan knows of an algorithm that does not come with the package
    (`testbed/catalogue` has the same of those that do). They may be set by the class or by its constructor.
    """

    sharing: Sharing
    """Set before `run` is called."""
    needs_server: bool = False
    """One node serves instead of learning."""
    waits: bool | None = None
    """Every node waits for models of others in every round; None: nothing is said."""
    sends_to: int | Literal["neighbours"] | None = None
    """To how many of its neighbours a node sends a model in a round; None: nothing is said."""

    async def run(self, node: Node) -> None:
        """What a node that learns does, from the start barrier until it is done."""
        raise NotImplementedError(f"{type(self).__name__} has no `async def run(self, node)`")

    async def serve(self, node: Node) -> None:
        """What the node with the role `server` does."""
        raise NotImplementedError(f"{type(self).__name__} has no `async def serve(self, node)`")

    def state(self) -> State:
        """What it remembers from round to round besides the model, for the next life of a node with `rejoin: last`."""
        return NOTHING

    def restore(self, state: State) -> None:
        """Go on with what `state` gave in an earlier life; called before `run` or `serve`."""
