"""Whether this is Linux, and the sentence for what needs it.

Takes nothing, gives an answer; touches nothing. Virtual time, the topology tools and `collect` never ask.
"""

from __future__ import annotations

import sys

from testbed.errors import PreflightRefused

NEED_LINUX = "processes with networks of their own need Linux"
_INSTEAD = "--runtime sim runs in virtual time, here too"


def is_linux() -> bool:
    return sys.platform.startswith("linux")


def need_linux(what: str = "") -> PreflightRefused:
    """What a command that cannot do its work here ends with; `what` names the command or option, if that helps."""
    return PreflightRefused(f"{what}: {NEED_LINUX}" if what else NEED_LINUX, _INSTEAD)
