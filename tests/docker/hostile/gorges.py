"""Takes more memory than its container may have."""

from __future__ import annotations

from collections.abc import Mapping

from testbed.node.node import Node

_PIECE, _MOST = 8 << 20, 1 << 30


async def act(node: Node, round_: int, told: Mapping[str, object]) -> None:  # noqa: ARG001
    if round_ == 2:
        taken = []
        for _ in range(_MOST // _PIECE):
            taken.append(b"x" * _PIECE)
