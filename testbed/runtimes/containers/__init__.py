"""What runs inside the containers of a run, whatever started them: a Docker Engine, Compose, a cluster.

Every learner has a container, and each of its lives is one start of it. Control and the fabric have one each, without
privileges. Nothing in here knows Docker.
"""

from __future__ import annotations

ROOT = "/testbed"
SOCKETS, NODE = "sockets", "node"
"""Folders in it: where the node calls, and where its results lie."""
SUPERVISOR_SOCKET, CONTROL_SOCKET, FABRIC_SOCKET = "supervisor.sock", "control.sock", "fabric.sock"
"""In a node's own folder, which nobody else has: who comes in there is that node."""
PLAN, LOG = "plan.json", "log.txt"
"""Among its results, as `rundir` calls them."""
