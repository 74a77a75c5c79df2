"""Targets: what a runtime cannot do with a topology.

Takes a `Topology`, its `Network` and the findings so far, gives findings about one runtime; touches nothing. `rules`
is the way in. An error means that the file would not run there, or would run as something else; a warning that it
runs, and what to check before trusting it. May import the leaves, `topologies` and `network`.
"""
