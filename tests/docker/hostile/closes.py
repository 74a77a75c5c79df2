"""Closes its folders to everybody who is not root, and hides others in each other so deep that paths do not reach."""

from __future__ import annotations

import os
from collections.abc import Mapping

from testbed.node.node import Node

_DEEP = 3000


async def act(node: Node, round_: int, told: Mapping[str, object]) -> None:  # noqa: ARG001
    if round_ != 1:
        return
    before = os.getcwd()
    for folder in ("/testbed/sockets", "/testbed/node"):
        os.chdir(folder)
        for _ in range(_DEEP):
            os.mkdir("d")
            os.chdir("d")
        os.chmod(".", 0)
        os.chdir(before)
    os.chmod("/testbed/sockets/d", 0)
    os.chmod("/testbed/sockets", 0)
