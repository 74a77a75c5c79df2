"""What shapes the traffic between nodes.

- `fabric`: a wide-area network in user space, between the TUN devices of the nodes.
- `attach`: how a node gets a network of its own and hands it to the fabric (`namespace`, `tun`, `netlink`, `denied`).
- `privileges`: how a process gives up what it no longer needs.
- `kernel`: the system calls that Python has no name for.
"""
