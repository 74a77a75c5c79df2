"""Data sets: which there are, where they come from, how they are stored, and how learners divide them.

Takes the name of a data set, a seed and a number of learners, gives samples and partitions; touches the cache of data
sets and, to fill it, this machine's package managers or the data sets' own sites.

    catalogue ─> fetch (clients, archives, formats) ─> store ─> load ─> DataSet ─> partition ─> parts
        └─────> stand_in, for a plan without the data ──────────────────┘
"""
