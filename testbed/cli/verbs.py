"""The verbs of the command, each with the first sentence of its help.

They are repeated here so that `testbed --help` need not import all commands; a test compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

VERBS: Mapping[str, str] = MappingProxyType(
    {
        "doctor": "Check what can run on this machine, what cannot, why, and what to do about it.",
        "topologies": "List the bundled topologies; `links` counts each direction.",
        "validate": "Report all problems of FILE at once; the exit status is 3 if there are errors.",
        "show": "Show services, nodes, bridges, links, events, ranges of path properties and warnings of FILE.",
        "paths": "Show end-to-end latency, jitter, loss and bandwidth of every ordered pair of nodes in FILE.",
        "generate": "Generate a topology of one of the kinds below.",
        "convert": "Rewrite the topology FILE in the other form; both load as the same model.",
        "draw": "Draw a topology: regions, nodes, links and what limits them.",
        "schema": "Print the JSON Schema of topologies or of experiments; "
        "editors complete and check such files with it.",
        "render": "Write the manifest of a run, to start it by hand: of a topology, or of an experiment.",
        "build": "Build the image that every learner's container runs.",
        "deploy": "Run an experiment: a YAML file, or a topology and options.",
        "status": "Show the progress of runs; of one run also its busiest links and pairs of nodes.",
        "logs": "Print the output of nodes, with tracebacks; of several nodes each line begins with the node's name.",
        "exec": "Run a command in the network of a node, such as ping or iperf3.",
        "link": "Show or change the links of a live run.",
        "capture": "Write the packets that NODE of a run sends and receives to a file, in pcap form: "
        "Wireshark opens it.",
        "fault": "Inject a fault into nodes, groups of nodes or links of a live run.",
        "verify": "Measure the network of TOPOLOGY, brought up without learners, or that of a live RUN.",
        "destroy": "End a run, and remove everything that it left behind except its results.",
        "collect": "Summarise the results of runs; RESULTS is a run's name or directory, or a folder of runs.",
        "calibrate": "Measure this machine's time for a local step: one process alone, then one on every core.",
        "algorithms": "Compare the built-in algorithms: what they wait for, send, remember and lose; or describe NAME.",
        "data": "Data sets: list them, fetch them, see how they are divided.",
    }
)
HIDDEN = ("prepare",)
"""Verbs that other parts of testbed start; they are hidden from users."""
