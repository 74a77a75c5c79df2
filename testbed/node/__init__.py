"""One learner: its algorithm, sharing, neighbours, data, model and training, and its journal.

Takes a `NodePlan` and a world to live in (clock, compute, transport), gives a journal; touches its own run folder, and
sockets through the transport. No code here depends on whether time is real or virtual.
"""
