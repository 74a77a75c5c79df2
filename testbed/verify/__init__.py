"""Is the network the one that was asked for? Measured between real sockets.

Takes a topology and a fabric's configuration, gives rows of asked against measured; starts a fabric and a process for
every node that is measured, and leaves nothing behind.

- `pairs`: which pairs are measured, and what is asked of each; pure.
- `needs`: how many probes, for how long, and what runs beside what; pure.
- `orders`: what a node is told to measure, and what it answers.
- `probes`, `streams`: the measuring itself, inside a node's namespace; `sockets`: what both need.
- `nodes`: the processes that do it.
- `prepare`: a topology as something to measure.
- `measure`: the fabric up, everything measured, the fabric down.
- `judge`: asked against measured, two-sided; pure.
"""
