"""Nodes' TUN devices, as every data plane takes them over and closes them.

Takes descriptors; touches them. With its descriptor a device goes, and often a whole namespace: that takes the kernel
some 30 ms each, though many at once take hardly longer. No packets may wait for that.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable

from testbed.engines.tun import NotATun, check_tun, set_offload

_AT_ONCE = 64


def make_fit(descriptor: int) -> None:
    """To be attached; raises NotATun, and the descriptor is closed, when it will not do."""
    try:
        check_tun(descriptor)
        set_offload(descriptor, super_segments=True)
        os.set_blocking(descriptor, False)
    except (OSError, NotATun) as problem:
        os.close(descriptor)
        raise NotATun(str(problem)) from None


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
