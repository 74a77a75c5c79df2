"""The data plane in Python, over `network/packets`.

- `plane`: `PythonPlane`, its one thread; `waiting`: what that waits for.
- `ports`: the nodes' devices; `intake`, `frames`: what comes out of them.
- `forwarder`: frames on their way, over the packet model.
- `delay_counts`, `packet_file`: what it counts and captures.
"""
