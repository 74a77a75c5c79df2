"""File → `Topology` and findings: the entry point. Touches the given file only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from testbed.errors import Finding, Findings, InvalidInput, UsageProblem, has_errors
from testbed.topologies.build import build
from testbed.topologies.model import Topology
from testbed.topologies.read_xml import read_xml
from testbed.topologies.read_yaml import read_yaml
from testbed.topologies.source import Form, Rejected, Source, decode, form_of, read_bytes

_READERS = {Form.XML: read_xml, Form.YAML: read_yaml}


@dataclass(frozen=True)
class Loaded:
    """A loaded file. `topology` is None when there are errors among the findings."""

    file: str
    topology: Topology | None
    findings: tuple[Finding, ...]

    def require(self) -> Topology:
        """The topology; raises InvalidInput with all findings if there are errors."""
        if self.topology is None:
            raise InvalidInput(self.file, self.findings)
        return self.topology


def load(path: str | Path) -> Loaded:
    """Reads a file in either form. Any content gives a topology or findings, never another exception."""
    form = form_of(path)
    if form is None:
        other = "; a run's plan.json is run again by `deploy --plan`" if str(path).endswith(".json") else ""
        raise UsageProblem(f"{path}: neither XML nor YAML by its name", f"name it .xml, .yaml or .yml{other}")
    try:
        data = read_bytes(Path(path))
    except Rejected as rejected:
        return Loaded(str(path), None, (rejected.finding,))
    return load_bytes(data, form, str(path))


def load_bytes(data: bytes, form: Form, file: str) -> Loaded:
    """The same for text in memory; `file` is the name in findings."""
    findings = Findings()
    try:
        source = Source(file, decode(data))
        document = _READERS[form](source, findings)
        topology = build(document, source, Path(file).stem, findings)
    except Rejected as rejected:
        findings.add(_other_form(rejected.finding, data, form))
        return Loaded(file, None, tuple(findings.all()))
    found = tuple(findings.all())
    return Loaded(file, None if has_errors(found) else topology, found)


def _other_form(finding: Finding, data: bytes, form: Form) -> Finding:
    """Adds a hint when a file that cannot be read is in the other form."""
    is_xml = data.lstrip().startswith(b"<")
    if finding.code in ("syntax", "bad-shape") and is_xml != (form is Form.XML):
        other = Form.XML if is_xml else Form.YAML
        return replace(finding, hint=f"this looks like {other.name}: name the file .{other}")
    return finding
