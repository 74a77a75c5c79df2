"""The plan: the frozen, complete description of one run. Everything after it reads only the plan.

- `model`: the data of a plan. `files`: how it is written and read.
- `make`: makes a plan from an experiment and a topology. `roles`, `pace`, `overlay`: parts of that.
- `overlay_graph`: graphs over the learners, the same on every machine. `overlay_files`: graphs from files.
- `estimate`: how many bytes and how much time a run will take.
"""
