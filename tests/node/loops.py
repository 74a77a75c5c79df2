"""Tests without coroutines of what needs asyncio's loop to be there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def inside_a_loop(test: Callable[[], None]) -> None:
    async def body() -> None:
        test()

    asyncio.run(body())
