"""What processes of a run say to each other: a module for each conversation, and `message` for all.

Seconds called `..._s` without more are emulated seconds since the start barrier; those called `monotonic_s` are the
host's CLOCK_MONOTONIC, which everybody on a host shares.
"""
