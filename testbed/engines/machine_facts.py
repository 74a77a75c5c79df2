"""What a machine's own files tell of the rules that it puts on processes.

Takes the folder that stands for `/` and a user, gives what is written there; reads, and changes nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

_FILTERED = "2"
"""Of `Seccomp:` in a process' status: some of its system calls are filtered."""
_ROOT = Path("/")


@dataclass(frozen=True)
class MachineFacts:
    """Of this machine, unless a folder made to look like another one is given."""

    root: Path = _ROOT
    user: int = field(default_factory=lambda: os.geteuid())

    def setting(self, name: str) -> int | None:
        """A sysctl, such as `user.max_user_namespaces`; None where the kernel has none of that name."""
        try:
            return int(self._read(f"proc/sys/{name.replace('.', '/')}"))
        except ValueError:
            return None

    @property
    def is_container(self) -> bool:
        """One of Docker's: it leaves this file in each."""
        return (self.root / ".dockerenv").exists()

    @property
    def is_filtered(self) -> bool:
        """Whether a seccomp filter decides about this process' system calls."""
        status = (line.split() for line in self._read("proc/self/status").splitlines())
        return ["Seccomp:", _FILTERED] in status

    @property
    def is_confined(self) -> bool:
        """Whether a profile of AppArmor is enforced on this process."""
        return self._read("proc/self/attr/current").strip("\0\n ").endswith("(enforce)")

    def _read(self, path: str) -> str:
        try:
            return (self.root / path).read_text(errors="replace")
        except OSError:
            return ""
