"""Real learner processes on this machine, each in a network namespace of its own, over the fabric.

`run` is a whole run: it starts a fabric and a zygote, which forks the nodes (`node_process`), and it is their control.
"""
