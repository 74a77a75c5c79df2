"""The algorithms, one file each: what is written there is what the paper says, and nothing else."""
