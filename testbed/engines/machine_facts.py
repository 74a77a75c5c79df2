"""Restrictions that this machine puts on processes, read from its own files.

Takes a root folder and a user, gives settings; reads files and changes nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

_FILTERED = "2"
"""Value of `Seccomp:` in a process's status when its system calls are filtered."""
_IN_KUBERNETES = "KUBERNETES_SERVICE_HOST="
_ROOT = Path("/")


@dataclass(frozen=True)
class MachineFacts:
    """Facts about this machine, or about one that the folder `root` imitates."""

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
        """Whether this is a container: Docker and Podman leave a file in each, Kubernetes sets a variable."""
        if any((self.root / mark).exists() for mark in (".dockerenv", "run/.containerenv")):
            return True
        return any(each.startswith(_IN_KUBERNETES) for each in self._read("proc/self/environ").split("\0"))

    @property
    def is_filtered(self) -> bool:
        """Whether a seccomp filter restricts this process's system calls."""
        status = (line.split() for line in self._read("proc/self/status").splitlines())
        return ["Seccomp:", _FILTERED] in status

    @property
    def is_confined(self) -> bool:
        """Whether an AppArmor profile is enforced on this process."""
        return self._read("proc/self/attr/current").strip("\0\n ").endswith("(enforce)")

    def _read(self, path: str) -> str:
        try:
            return (self.root / path).read_text(errors="replace")
        except OSError:
            return ""
