"""Whether runs of containers can be had. Takes nothing, gives a check; asks the Engine."""

from __future__ import annotations

from testbed.cli.doctor_check import Check
from testbed.image.facts import DEFAULT_TAG
from testbed.runtimes.docker.preflight import why_no_containers


def containers() -> Check:
    reason = why_no_containers(DEFAULT_TAG)
    if reason is None:
        return Check("containers", True, f"an Engine has {DEFAULT_TAG}: `deploy` takes them by itself")
    return Check("containers", False, reason, "only runs of containers need an Engine and `testbed build`")
