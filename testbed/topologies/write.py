"""`Topology` → text in either form. Pure."""

from __future__ import annotations

from testbed.topologies.model import Topology
from testbed.topologies.source import Form
from testbed.topologies.write_xml import to_xml
from testbed.topologies.write_yaml import to_yaml


def write_text(topology: Topology, form: Form | str, file: str = "") -> str:
    """Text that loads as the same model; raises InvalidInput, about `file`, where the form cannot say it."""
    return to_xml(topology, file) if Form(form) is Form.XML else to_yaml(topology)
