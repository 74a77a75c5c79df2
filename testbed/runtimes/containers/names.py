"""Names of what a learner's container finds there, for its first process, which is light; `inside` has all of it."""

ROOT = "/testbed"
SOCKETS, NODE = "sockets", "node"
"""Folders in it: where the node calls, and where its results lie."""
SUPERVISOR_SOCKET, CONTROL_SOCKET, FABRIC_SOCKET = "supervisor.sock", "control.sock", "fabric.sock"
"""In a node's own folder, which nobody else has: who comes in there is that node."""
PLAN, LOG = "plan.json", "log.txt"
"""Among its results, as `rundir` calls them."""
