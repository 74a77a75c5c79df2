"""The data to learn from: what there is, where it comes from, how it is stored, and who gets which part of it.

Takes the name of a data set, a seed and a number of learners, gives samples and parts of them; touches the cache of
data sets and, to fill it, the package clients of this machine or the data sets' own sites.

    catalogue ─> fetch (clients, archives, formats) ─> store ─> load ─> DataSet ─> partition ─> parts
        └─────> stand_in, for a plan without the data ──────────────────┘
"""
