"""The verbs of the command, each with the first sentence of its help.

They are repeated here so that `testbed --help` need not import all commands; a test compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

VERBS: Mapping[str, str] = MappingProxyType(
    {
        "doctor": "Look at this machine: what can run here, what cannot, why, and what to do about it.",
        "topologies": "List the bundled topologies; `links` counts each direction.",
        "validate": "Tell all problems of FILE at once; the exit status is 3 when there are errors.",
        "show": "Services, nodes, bridges, links, events, ranges of path properties and warnings of FILE.",
        "paths": "End-to-end latency, jitter, loss and bandwidth of every ordered pair of nodes in FILE.",
        "generate": "Generate a topology of one of the kinds below.",
        "convert": "Rewrite the topology FILE in the other form; both load as the same model.",
        "draw": "Draw a topology: regions, nodes, links and what limits them.",
        "schema": "Print the JSON Schema of topologies or of experiments; "
        "editors complete and check such files with it.",
        "render": "Write the manifest of a run, to start it by hand: of a topology, or of an experiment.",
        "build": "Build the image that every learner's container runs.",
        "deploy": "Run an experiment: a YAML file, or a topology and options.",
        "status": "Show how far runs are; of one run also what its links carry, and its nodes send each other.",
        "logs": "Print what nodes have printed, and how their code failed; of several each line with its node's name.",
        "exec": "Run a command where a node is in the network: ping and iperf3 see what it sees.",
        "link": "Look at the links of a run that is going on, and change them.",
        "capture": "Write the packets that NODE of a run sends and receives to a file, in pcap form: "
        "Wireshark opens it.",
        "fault": "Let something happen to nodes of a run that goes on, to groups of them, or to links.",
        "verify": "Bring up the network of TOPOLOGY without learners and measure it, or look at a RUN that goes on.",
        "destroy": "End a run, and remove all that it left behind but its results.",
        "collect": "What happened in the runs in RESULTS: a run's name or directory, or a folder of runs.",
        "calibrate": "Measure this machine's time for a local step: one process alone, then one on every core.",
        "data": "Data sets: list them, fetch them, see how they are divided.",
    }
)
HIDDEN = ("prepare",)
"""Verbs that other parts of testbed start; they are hidden from users."""
