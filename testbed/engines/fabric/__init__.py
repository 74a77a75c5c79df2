"""The engine `fabric`: a wide-area network in user space.

Every node has a network namespace of its own, whose only device is a TUN; the other end of it is the fabric, one
unprivileged process a host, which reads what nodes write, lets it walk the links of the topology, and writes it to whom
it is for when it is due. It takes a `FabricConfig`, and touches its sockets, its files and the descriptors it is given.

- `config`: what a fabric is started with; `sockets`: where it is reached.
- `start`: starts one, talks to it, ends it; `__main__`: the process.
- `fabric`: its one thread; `waiting`: what that waits for.
- `doors`, `conversations`, `server`: how nodes and control come in, and what they may ask.
- `ports`, `closing`: the nodes' devices; `intake`, `frames`: what comes out of them.
- `carrier`: frames on their way, over the packet model.
- `conditions`: what the network is like now: topology, timeline, and what was set by hand.
- `reports`, `accounts`, `health`, `delays`, `lateness`, `capture`: what it writes down.
"""
