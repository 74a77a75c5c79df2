"""The first process of a container, without a container: it makes no network, and is who it is from the beginning.

`python -m tests.runtimes.containers.lone_supervisor FOLDER CODE [TIMEOUT]`: its learner ends with that code at once,
or, where the code is `never`, when it is killed; it waits for control so many seconds. A learner whose code is
`family` has a child that writes a byte to its folder again and again, and holds a slot if there is one.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

from testbed.engines.privileges import User
from testbed.protocol.zygote import Fork
from testbed.runtimes.containers import arrival
from testbed.runtimes.containers.container_paths import ContainerPaths
from testbed.runtimes.containers.supervisor import Supervisor

NEVER, FAMILY = "never", "family"
BEATS = "beats"
_BEAT_S = 0.01


def live(inside: ContainerPaths, _order: Fork) -> None:
    if sys.argv[2] == FAMILY and os.fork() == 0:
        for slot in inside.slots.glob("slot-*"):
            fcntl.flock(os.open(slot, os.O_RDONLY), fcntl.LOCK_EX)
        while True:
            with (inside.node.path / BEATS).open("ab") as file:
                file.write(b".")
            time.sleep(_BEAT_S)
    while sys.argv[2] in (NEVER, FAMILY):
        signal.pause()
    os._exit(int(sys.argv[2]))


if __name__ == "__main__":
    if len(sys.argv) > 3:
        arrival.TIMEOUT_S = float(sys.argv[3])
    with patch.object(arrival, "join_container_network"), patch.object(arrival, "acting_as", lambda _: nullcontext()):
        arrived = arrival.arrive(sys.argv[1], User(os.getuid(), os.getgid()))
        sys.exit(
            arrived if isinstance(arrived, int) else Supervisor(ContainerPaths(Path(sys.argv[1])), arrived, live).run()
        )
