"""What shapes the traffic between nodes.

- `fabric`: a wide-area network in user space, between the TUN devices of the nodes.
- `attach`: how a node gets a network of its own (`namespace`).
- `device`: how its device is made and handed to the fabric (`tun`, `netlink`).
- `steps`: what that takes; `denied`: what a machine may deny of it; `counters`: what a device has counted.
- `privileges`: how a process gives up what it no longer needs.
- `kernel`: the system calls that Python has no name for.
"""
