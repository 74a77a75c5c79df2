"""A second implementation of every algorithm, straight from its formula, which steps beside the first.

The first runs in a small world, and leaves a trace: who sent, received and trained when. The second computes from the
order of these events what each message must have carried, and what each model must have been.
"""
