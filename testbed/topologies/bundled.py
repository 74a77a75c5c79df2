"""The bundled topologies: their names, contents and paths.

Takes a name, gives a path, touches nothing (`load` reads the file).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_FOLDER = Path(__file__).parent / "bundled"
_PREFIX = "topologies"


@dataclass(frozen=True, slots=True)
class Bundled:
    """A topology file in the package: XML if Kollaps can run it, otherwise YAML."""

    name: str
    form: str
    description: str

    @property
    def file_name(self) -> str:
        return f"{self.name}.{self.form}"

    @property
    def path(self) -> Path:
        return _FOLDER / self.file_name


BUNDLED = (
    Bundled("lan4", "xml", "4 nodes around one switch: 1 Gbps, 1 ms between any two"),
    Bundled("lan16", "xml", "16 nodes around one switch: 1 Gbps, 1 ms between any two"),
    Bundled("star60-stragglers", "xml", "DivShare's synthetic network: 53 nodes at 60 Mbps, 7 at 10 to 13 Mbps"),
    Bundled("regions60", "xml", "DivShare's ten regions, 6 nodes each: every pair has its own link of 21 to 405 Mbps"),
    Bundled("wan16", "xml", "16 nodes in ten cloud regions, 21 to 330 ms round trip; 100 Mbps access links"),
    Bundled("wan64", "xml", "64 nodes in the same ten cloud regions"),
    Bundled("wan256", "xml", "256 nodes in the same ten cloud regions"),
    Bundled("wan1024", "xml", "1024 nodes in the same ten cloud regions"),
    Bundled("mobile32", "xml", "32 phones in four LTE-like cells: slow uplinks, jitter, up to 1 % loss each way"),
    Bundled("churn16", "yaml", "16 nodes in two sites that crash, rejoin, pause and leave; one partition"),
    Bundled("flaky-link8", "xml", "8 nodes in two sites; the link between them loses packets, slows down and breaks"),
)


def find_bundled(name: str) -> Path | None:
    """The file for `wan256`, `wan256.xml`, `topologies/wan256` or `topologies/wan256.xml`."""
    path = PurePosixPath(name)
    if path.parts[:1] == (_PREFIX,):
        path = path.relative_to(_PREFIX)
    return next((each.path for each in BUNDLED if str(path) in (each.name, each.file_name)), None)
