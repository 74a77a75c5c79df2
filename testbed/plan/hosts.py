"""Names and addresses of a run's nodes, for /etc/hosts.

Takes a plan, gives hosts; pure. Node names that are not valid host names are left out.
"""

from __future__ import annotations

import re

from testbed.plan.model import RunPlan

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_ITSELF = "127.0.0.1 localhost\n"


def hosts_of(plan: RunPlan) -> dict[str, str]:
    """Addresses by host name."""
    return {node.name: node.address for node in plan.nodes if _NAME.fullmatch(node.name)}


def hosts_text(hosts: dict[str, str]) -> str:
    """The text of /etc/hosts."""
    return _ITSELF + "".join(f"{address} {name}\n" for name, address in hosts.items())
