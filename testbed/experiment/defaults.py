"""What holds where an experiment says nothing, and commands tell in their help. Imports nothing heavy."""

from __future__ import annotations

DEFAULT_ROUNDS = 50
"""After which a run stops."""
