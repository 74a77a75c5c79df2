"""What runs inside the containers of a run, started by a Docker Engine, Compose or a cluster.

Every learner has a container; each life of the learner is one start of it. Control and the fabric have one each,
without privileges. Nothing here depends on Docker.
"""

from __future__ import annotations

ROOT = "/testbed"
SOCKETS, NODE = "sockets", "node"
"""Folders in ROOT: the node's sockets, and its results."""
SUPERVISOR_SOCKET, CONTROL_SOCKET, FABRIC_SOCKET = "supervisor.sock", "control.sock", "fabric.sock"
"""In a node's own folder of sockets. Only that node's container mounts it, so every connection there is that node's."""
PLAN, LOG = "plan.json", "log.txt"
"""Files among the results, named as in `rundir`."""
