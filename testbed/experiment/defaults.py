"""Defaults of an experiment that commands show in their help. Imports nothing heavy."""

from __future__ import annotations

DEFAULT_ROUNDS = 50
"""The number of rounds after which a run stops."""
