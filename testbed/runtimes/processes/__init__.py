"""Runs of real processes: the runtime `local`, and what a run in containers does inside of its control.

`run` is one run, and says how it goes. `backend` is what it asks of the place where nodes live; `local_backend` is this
machine. `zygote` forks nodes; `node_process` is one node. `node_actions` and `injections` are what happens to nodes,
`watches`, `stall_watch` and `start_barrier` what is looked at meanwhile. All of them share one `context`.
"""
