"""One learner: its algorithm, what it shares and with whom, its data, model and training, and its journal.

Takes a `NodePlan` and a world to live in (clock, compute, transport), gives a journal; touches its own run folder, and
sockets through the transport. Nothing in here knows whether time is real.
"""
