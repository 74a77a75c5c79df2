"""How the tables are made and looked up.

Takes entries, gives them by name; pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol, TypeVar

from testbed.catalogue.options import Option


class Entry(Protocol):
    """What the entries of all tables have."""

    @property
    def name(self) -> str:
        """As experiments spell it."""

    @property
    def code(self) -> str:
        """Where its class or function is, as `module:Name`."""

    @property
    def summary(self) -> str:
        """One sentence without a full stop."""

    @property
    def options(self) -> tuple[Option, ...]: ...


_Entry = TypeVar("_Entry", bound=Entry)


def by_name(*entries: _Entry) -> Mapping[str, _Entry]:
    """A table; raises ValueError where two entries have one name."""
    table = {entry.name: entry for entry in entries}
    if len(table) < len(entries):
        raise ValueError(f"two entries have one name: {', '.join(entry.name for entry in entries)}")
    return MappingProxyType(table)
