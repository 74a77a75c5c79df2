"""Messages between the processes of a run: one module for each pair of speakers, and `message` for what they share.

Times called `..._s` are emulated seconds since the start barrier; those called `monotonic_s` are the host's
CLOCK_MONOTONIC, which all processes on a host share.
"""
