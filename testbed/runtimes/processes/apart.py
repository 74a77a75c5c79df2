"""How the process that all nodes are forked from keeps them apart from each other.

Takes the run's sandbox, gives each node a namespace of processes, and a view with its own folders and no others;
touches the calling process.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from testbed.isolation.launch import enter_node_sandbox
from testbed.isolation.namespaces import ProcessNamespaces
from testbed.isolation.sandbox import Sandbox
from testbed.isolation.view import PathKind, VisiblePath
from testbed.protocol.nodes import Unable
from testbed.runtimes.processes.node_process import Home, tell_control


class Apart:
    """One run's; made by the process that nodes are forked from."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._shared = sandbox.shared
        self._processes = ProcessNamespaces()

    def processes(self) -> AbstractContextManager[None]:
        """Within it a node is forked: it is the first process of a namespace, and all others there end with it."""
        return self._processes.another()

    def close(self) -> None:
        """In a node, for which there is no way back."""
        self._processes.close()

    def keep(self, home: Home) -> None:
        """The calling process, forked to be a node, sees what is its own; tells control, and raises, when denied."""
        self.close()
        own = (
            VisiblePath(str(home.directory.path), PathKind.WRITE),
            VisiblePath(str(home.directory.plan)),
            VisiblePath(str(home.fabric.parent), PathKind.WRITE),
            VisiblePath(str(home.control), PathKind.WRITE),
            VisiblePath(str(home.slots)),
        )
        try:
            enter_node_sandbox((*self._shared, *own))
        except OSError as problem:
            words = f"cannot be kept apart from other nodes: {problem.strerror or problem}"
            tell_control(home, Unable(words, refused=True))
            raise
