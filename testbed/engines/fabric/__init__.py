"""The engine `fabric`: a wide-area network in user space.

Every node has a network namespace of its own, whose only device is a TUN; the other end of it is the fabric, one
unprivileged process a host. Its data plane reads what nodes write, lets it walk the links of the topology, and writes
it to its destination when it is due; its control plane is everything else. It takes a `FabricConfig`, and touches its
sockets, its files and the descriptors it is given.

- `config`: what a fabric is started with; `sockets`: where it is reached.
- `start`: starts one, talks to it, ends it; `__main__`: the process.
- `fabric`: the control plane, its one thread; `dispatcher`: what that waits for.
- `data_plane`: the interface of data planes; `planes`: their list; `python_plane`: the one in Python.
- `listeners`, `unix_sockets`, `server`: how nodes and control connect, and what they may ask.
- `conditions`: what the network is like now: topology, timeline, and what was set by hand.
- `reports`, `accounts`, `health`, `delays`, `captures`: what it writes down.
"""
