"""Runs of built-in algorithms with everything drawn from a seed, and what must hold for each of them.

`story` draws an experiment and its network, `attempt` runs it, `witness` watches the messages of a run in virtual time,
`verdict` judges. `python -m soaks.algorithm_runs NAME SEED FOLDER` repeats one and leaves its files for changes.
"""
