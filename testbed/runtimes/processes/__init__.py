"""Runs of real processes: the runtime `local`, and what a run in containers does inside of its control.

`run` is one run, and its nodes' control. `backend` is what it asks of the place where nodes live; `local_backend` is
this machine. `zygote` forks nodes; `node_process` is one node.
"""
