"""Fidelity, measured: of virtual time beside real processes, and of the emulated network beside what was asked.

- `cases`, `virtual_time`: plans, and their rounds in both worlds.
- `network`: delay, jitter, loss and rate between real sockets.
- `command`: `scripts/fidelity`.
"""
