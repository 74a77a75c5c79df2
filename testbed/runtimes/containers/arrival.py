"""The start of a learner's container: it connects to control, and creates its network.

Takes the node's folders and the learner's user, gives a connection to control; touches the container's network, and
runs as root until it exists. Light: every container imports this before the last one has its network. What reads
messages is imported when control sends other messages than the usual first ones.
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
"""How long control and the fabric may take to listen: many containers start at once. TIMEOUT_AGAIN_S is for a restarted
container, for which they have listened before."""
_LOOK_S = 0.05


class Arrived:
    """A node that has its network, or was denied it, and has a message from control, or a closed connection."""

    def __init__(self, signals: Signals, user: User, control: socket.socket) -> None:
        self.signals = signals
        self.user = user
        self.control = control
        self.order = b""
        """The order to start the learner, if control sent it before the network existed."""
        self.denied: NetworkDenied | None = None


def arrive(root: str, user: User) -> Arrived | int:
    """Connects and creates the network; an exit code if nothing is left to do, 0 if the run does not need the node.

    A failed container that Docker restarts, without an order of control to live again, ends at once with the same code.
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
        """A connection to control; None if control does not listen in time, or the container is told to end."""
        has_lived = os.path.exists(os.path.join(self._node, LOG))
        until_s = time.monotonic() + (TIMEOUT_AGAIN_S if has_lived else TIMEOUT_S)
        while self._is_there(path, until_s):
            with suppress(ConnectionRefusedError, FileNotFoundError):  # bound, not listening yet
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
        """Waits until control wants the node to create its network, or to live; False if the run ends before."""
        while await_message(arrived.control, self._signals):
            packet = receive(arrived.control)
            if not packet:
                return False
            if packet == DO_ATTACH:
                return True
            # A node that joins later or comes back gets another message; it is alone, and has time for the import.
            from testbed.runtimes.containers.supervisor_messages import that_it_lives

            if that_it_lives(packet):
                arrived.order = packet
                return True
        return False

    def _join(self, device: NodeDevice, fabric: str) -> NetworkDenied | None:
        """Creates the network, then gives up root, unless something was denied."""
        try:
            join_container_network(device, fabric, self._user)
        except Exception as problem:
            from testbed.engines.denied import NetworkDenied

            if not isinstance(problem, NetworkDenied):
                raise
            return problem
        keep_to_itself()
        return None
