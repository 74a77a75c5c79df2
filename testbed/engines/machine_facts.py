"""What a machine's own files tell of the rules that it puts on processes.

Takes the folder that stands for `/` and a user, gives what is written there; reads, and changes nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

_FILTERED = "2"
"""Of `Seccomp:` in a process' status: some of its system calls are filtered."""
_IN_KUBERNETES = "KUBERNETES_SERVICE_HOST="
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
        """One of Docker's or Podman's, which leave a file in each, or of Kubernetes, which tells each where it is."""
        if any((self.root / mark).exists() for mark in (".dockerenv", "run/.containerenv")):
            return True
        return any(each.startswith(_IN_KUBERNETES) for each in self._read("proc/self/environ").split("\0"))

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
