"""Closes TUN devices without waiting for it.

Takes descriptors; touches them. With its descriptor a device goes, and often a whole namespace: that takes the kernel
some 30 ms each, though many at once take hardly longer. Nobody's packets may wait for that.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable

_AT_ONCE = 64


def close_aside(descriptor: int) -> None:
    """Returns at once; the process does not end before it is done."""
    threading.Thread(target=os.close, args=(descriptor,)).start()


def close_together(descriptors: Iterable[int]) -> None:
    """All of them are closed."""
    left = list(descriptors)
    while left:
        closers = [threading.Thread(target=os.close, args=(each,)) for each in left[:_AT_ONCE]]
        del left[:_AT_ONCE]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join()
