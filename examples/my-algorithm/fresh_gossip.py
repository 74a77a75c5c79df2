"""Gossip that trusts news more than old news.

Every node trains, sends its model to a few neighbours drawn at random, and mixes in whatever has arrived. It never
waits: with different speeds and distances, received models may be some rounds old. The older a model, the less it
counts:

    weight of a received model = 1 / (1 + number of received models) * fade ** age in rounds

With fade = 1 all count the same.
"""

from testbed.node.algorithm import Algorithm


class FreshGossip(Algorithm):
    """The arguments are the options that an experiment may give: `options: {pushes: 2, fade: 0.5}`."""

    def __init__(self, pushes: int = 1, fade: float = 0.8) -> None:
        if pushes < 1 or not 0 < fade <= 1:
            raise ValueError("pushes is at least 1, fade above 0 and at most 1")
        self.pushes = pushes
        self.fade = fade

    async def run(self, node):
        # A stream of this node's own: the run is the same when it is run again.
        random = node.random("fresh-gossip")
        async for round_ in node.rounds():
            await node.train()

            # `encode` takes a snapshot, as the experiment's `sharing` says; sending goes on while we do.
            neighbours = await node.neighbours(round_)
            chosen = random.sample(neighbours, min(self.pushes, len(neighbours)))
            await node.send(chosen, self.sharing.encode(node.model, round_))

            # What is here now, perhaps nothing. A neighbour may be ahead of us: then its model is not old.
            received = node.arrived()
            ages = [max(0, round_ - each.round) for each in received]
            weights = [self.fade**age / (1 + len(received)) for age in ages]
            self.sharing.mix(node.model, received, weights)
