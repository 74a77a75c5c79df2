"""The first minutes of a learner's container: it tells control that it is there, and gets its network.

Takes where the node's folders are and who the learner is, gives a connection to control; touches the container's
network, and is root until it has that. Light: whatever it imports, every container of a run loads before the last of
them is in the network. All that reads messages is loaded when control has something else to say.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress

from testbed.boot_messages import CAME, DO_ATTACH
from testbed.engines.device import NodeDevice, join_container_network
from testbed.engines.kernel import keep_to_itself
from testbed.engines.privileges import User, acting_as
from testbed.plan.node_network import read_node_network
from testbed.runtimes.containers import FABRIC_SOCKET, LOG, NODE, PLAN, SOCKETS, SUPERVISOR_SOCKET
from testbed.runtimes.containers.end_mark import read_mark
from testbed.runtimes.containers.first_process import Signals, await_message, receive, send
from testbed.socket_paths import connect

TYPE_CHECKING = False  # `typing` takes longer to load than much else in here
if TYPE_CHECKING:
    from testbed.engines.denied import NetworkDenied

TIMEOUT_S, TIMEOUT_AGAIN_S = 300.0, 20.0
"""How long control and the fabric may take to be there: many containers start at once. For one that has lived before
they have been there."""
_LOOK_S = 0.05


class Arrived:
    """A node that has its network, or was denied it; control has said something, or hung up."""

    def __init__(self, signals: Signals, user: User, control: socket.socket) -> None:
        self.signals = signals
        self.user = user
        self.control = control
        self.order = b""
        """That it lives, if control has said so before it had its network."""
        self.denied: NetworkDenied | None = None


def arrive(root: str, user: User) -> Arrived | int:
    """The container's exit code where there is nothing more to do: 0 where the run has no use for it.

    A container that failed, and that Docker starts again though nobody wants it to live, ends at once as before.
    """
    return _Arrival(root, user).run()


class _Arrival:
    def __init__(self, root: str, user: User) -> None:
        self._sockets = os.path.join(root, SOCKETS)
        self._node = os.path.join(root, NODE)
        self._user = user
        self._signals = Signals()

    def run(self) -> Arrived | int:
        fabric = os.path.join(self._sockets, FABRIC_SOCKET)
        with acting_as(self._user):
            if (ended := read_mark(self._sockets)) is not None:
                return ended
            device = NodeDevice(*read_node_network(os.path.join(self._node, PLAN)))
            control = self._reach(os.path.join(self._sockets, SUPERVISOR_SOCKET))
            if control is None:
                return 0
            arrived = Arrived(self._signals, self._user, control)
            send(control, CAME)
            if not self._is_wanted(arrived) or not self._is_there(fabric):
                return 0
        arrived.denied = self._join(device, fabric)
        if arrived.order or await_message(control, self._signals):
            return arrived
        return 0

    def _reach(self, path: str) -> socket.socket | None:
        """Control; None when it never comes, or nobody wants this container any more."""
        has_lived = os.path.exists(os.path.join(self._node, LOG))
        until_s = time.monotonic() + (TIMEOUT_AGAIN_S if has_lived else TIMEOUT_S)
        while self._is_there(path, until_s):
            with suppress(ConnectionRefusedError, FileNotFoundError):  # it has bound it, and does not listen yet
                return connect(path)
            if time.monotonic() > until_s:  # control was killed, and has left its socket
                return None
            time.sleep(_LOOK_S)
        return None

    def _is_there(self, path: str, until_s: float | None = None) -> bool:
        until_s = time.monotonic() + TIMEOUT_S if until_s is None else until_s
        while not os.path.exists(path):
            if self._signals.is_asked_to_leave or time.monotonic() > until_s:
                return False
            time.sleep(_LOOK_S)
        return not self._signals.is_asked_to_leave

    def _is_wanted(self, arrived: Arrived) -> bool:
        """That the node lives, or only that it has its network; False when the run is over without."""
        while await_message(arrived.control, self._signals):
            packet = receive(arrived.control)
            if not packet:
                return False
            if packet == DO_ATTACH:
                return True
            from testbed.runtimes.containers.supervisor_messages import (
                that_it_lives,  # one that comes back or joins later, alone
            )

            if that_it_lives(packet):
                arrived.order = packet
                return True
        return False

    def _join(self, device: NodeDevice, fabric: str) -> NetworkDenied | None:
        """Afterwards nothing is left of root, unless something was denied."""
        try:
            join_container_network(device, fabric, self._user)
        except Exception as problem:
            from testbed.engines.denied import NetworkDenied

            if not isinstance(problem, NetworkDenied):
                raise
            return problem
        keep_to_itself()
        return None
