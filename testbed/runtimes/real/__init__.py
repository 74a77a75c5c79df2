"""What every run of real processes is, wherever it takes place.

`run` is a whole run, and its nodes' control; `ground` says what it asks of the place; `node_process` is one node.
"""
