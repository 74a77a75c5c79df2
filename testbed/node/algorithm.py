"""The seam of all algorithms: one class, written against `Node`, for virtual time and for real sockets alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from testbed.node.node import Node
    from testbed.node.sharing.base import Sharing


class Algorithm:
    """What a learner does, round after round. Its options come from the experiment, as keyword arguments."""

    sharing: Sharing
    """Set before `run` is called."""
    needs_server: ClassVar[bool] = False
    """Whether one node serves instead of learning."""

    async def run(self, node: Node) -> None:
        """What a node that learns does, from the start barrier until it is done."""
        raise NotImplementedError(f"{type(self).__name__} has no `async def run(self, node)`")

    async def serve(self, node: Node) -> None:
        """What the node with the role `server` does."""
        raise NotImplementedError(f"{type(self).__name__} has no `async def serve(self, node)`")
