"""Measures an emulated network between real sockets and compares it with what the topology asks for.

Takes a topology and a fabric's configuration, gives rows of asked against measured; starts a fabric and a process for
every measured node, and leaves nothing behind.

- `pairs`: which pairs are measured, and what the topology asks of each. `sizing`, `plan`: how many probes, for how
  long, and what runs in parallel; pure. `prepare`: a plan and a fabric configuration for a topology.
- `probe_protocol`: orders to probe processes, and their answers. `probes`, `streams`, `sockets`: measuring inside a
  node's namespace. `probe_processes`: the processes that do it. `tools`: installed ping and iperf3.
- `network`: brings a fabric up and down. `traffic`: echo probes, streams and TCP flows between pairs.
- `idle`, `changes`, `loaded`, `ping_iperf3`: the kinds of measurement. `measure`: all of them.
- `live`: a run that is going on. `work_folder`: the folder of a verification, and leftovers of killed ones.
- `judge`, `judge_live`: asked against measured, with bounds on both sides; pure.
"""
