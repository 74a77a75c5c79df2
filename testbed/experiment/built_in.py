"""The options of built-in algorithms, sharings, models and data sets, as sections of an experiment.

Takes entries of the catalogue, gives classes of pydantic; pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, create_model

from testbed.catalogue.options import Option, Type
from testbed.catalogue.tables import Entry
from testbed.experiment.choices import Options
from testbed.experiment.scalars import (
    Amount,
    AtLeastOne,
    Lasting,
    Name,
    Positive,
    PositiveOrFree,
    Share,
    Truth,
    Widths,
)

_READ_AS: Mapping[Type, Any] = {
    Type.POSITIVE: Positive,
    Type.POSITIVE_OR_FREE: PositiveOrFree,
    Type.AMOUNT: Amount,
    Type.SHARE: Share,
    Type.AT_LEAST_ONE: AtLeastOne,
    Type.TRUTH: Truth,
    Type.DURATION: Lasting,
    Type.NAME: Name,
    Type.WIDTHS: Widths,
}


def options_of(table: Mapping[str, Entry]) -> dict[str, type[Options]]:
    """The classes that validate the options of each entry, by its name."""
    return {name: _described(entry) for name, entry in table.items()}


def _described(entry: Entry) -> type[Options]:
    fields: dict[str, Any] = {
        option.name: (_type(option), Field(option.default, description=option.help)) for option in entry.options
    }
    return create_model(f"Options of {entry.name}", __base__=Options, __doc__=entry.summary, **fields)


def _type(option: Option) -> Any:
    read_as = Literal[option.type] if isinstance(option.type, tuple) else _READ_AS[option.type]
    return read_as | None if option.default is None else read_as
