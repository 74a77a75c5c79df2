"""Network engines, and what a node does to join the emulated network.

- `fabric`: emulates a wide-area network in user space, between the TUN devices of the nodes.
- `attach`: joins a node to the network, in a namespace of its own (`namespace`).
- `device`: makes a node's device and hands it to the fabric (`tun`, `netlink`). `counters`: the device's counters.
- `steps`: the steps of joining. `denied`: why a machine denies one, and what to run. `network_check`: tries them all.
- `privileges`: drops privileges. `kernel`: system calls without a Python function. `spawn`: starts our own programs.
"""
