"""`Topology` → text in either form. Pure."""

from __future__ import annotations

from testbed.errors import InvalidInput, error
from testbed.topologies.model import Topology
from testbed.topologies.source import MAX_FILE_BYTES, Form
from testbed.topologies.write_xml import to_xml
from testbed.topologies.write_yaml import to_yaml
from testbed.units import format_size


def write_text(topology: Topology, form: Form | str, file: str = "") -> str:
    """Text that loads as the same model; raises InvalidInput, about `file`, where the form cannot express it."""
    text = to_xml(topology, file) if Form(form) is Form.XML else to_yaml(topology)
    if len(text.encode()) > MAX_FILE_BYTES:
        message = (
            f"as {Form(form).name} it would have more than {format_size(MAX_FILE_BYTES)}, too much to be read again"
        )
        raise InvalidInput(file or topology.name, [error("too-large", message, "use fewer links, or bridges")])
    return text
