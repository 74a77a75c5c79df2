"""Is the network the one that was asked for? Measured between real sockets.

Takes a topology and a fabric's configuration, gives rows of asked against measured; starts a fabric and a process for
every node that is measured, and leaves nothing behind.

- `pairs`: which pairs are measured, and what is asked of each; `needs`, `plan`: how many probes, for how long, and what
  runs beside what; pure. `prepare`: a topology as something to measure.
- `orders`: what a node is told to measure, and what it answers; `probes`, `streams`, `sockets`: the measuring itself,
  inside a node's namespace; `nodes`: the processes that do it; `tools`: programs of others.
- `network`: a fabric up and down; `echoes`, `datagrams`, `connections`: what is sent between pairs.
- `idle`, `changes`, `loaded`, `others`: what is measured, by kind; `measure`: all of it.
- `live`: a run that goes on. `places`: what a killed verification leaves.
- `judge`, `judge_live`: asked against measured, two-sided; pure.
"""
