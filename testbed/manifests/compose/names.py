"""Valid names for Compose, Docker and hosts, from arbitrary node names.

Takes names, gives unique names that are allowed there; pure.
"""

from __future__ import annotations

import hashlib
import re

from testbed.plan.model import PlannedNode
from testbed.targets.host_names import MAX_LABEL

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OUTSIDE_KEY = re.compile(r"[^A-Za-z0-9._-]")
_OUTSIDE_HOST = re.compile(r"[^A-Za-z0-9.-]")
_OUTSIDE_PROJECT = re.compile(r"[^a-z0-9_-]")
_AT_ENDS = "._-"
_DIGEST = 8


def service_key(node: PlannedNode) -> str:
    """The node's name where Compose accepts it; otherwise one that ends with `-r` and the rank, as no node's does."""
    if _KEY.fullmatch(node.name):
        return node.name
    return f"{_OUTSIDE_KEY.sub('-', node.name).lstrip(_AT_ENDS) or 'node'}-r{node.rank}"


def host_name(node: PlannedNode) -> str:
    """Host name of the node's container: the node's name as far as host names allow."""
    name = _OUTSIDE_HOST.sub("-", node.name)
    if name == node.name and len(name) <= MAX_LABEL and name[0] not in _AT_ENDS:
        return name
    ending = f"-r{node.rank}"
    return (name.lstrip(_AT_ENDS)[: MAX_LABEL - len(ending)].rstrip(_AT_ENDS) or "node") + ending


def project_name(run_id: str) -> str:
    """Compose's project name for the run; unique for each run."""
    name = _OUTSIDE_PROJECT.sub("-", run_id.lower())
    ending = "" if name == run_id else f"-{hashlib.sha256(run_id.encode()).hexdigest()[:_DIGEST]}"
    return f"testbed-{name}{ending}"
