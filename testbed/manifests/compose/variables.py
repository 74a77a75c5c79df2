"""Variables of the Compose file, set in the environment or in `.env`, and texts that contain them.

Takes values, gives YAML in which Compose substitutes these variables and nothing else; pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from testbed.manifests.templates import compose_value, yaml_value
from testbed.units import format_number


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the environment or of the file `.env`, with its default."""

    name: str
    default: str

    def __str__(self) -> str:
        return f"${{{self.name}:-{self.default}}}"


IMAGE = Variable("TESTBED_IMAGE", "testbed:latest")
USER, GROUP = Variable("TESTBED_UID", "1000"), Variable("TESTBED_GID", "1000")
RESULTS, DATA = Variable("TESTBED_RESULTS", "./results"), Variable("TESTBED_DATA", "./data")
VARIABLES = (IMAGE, USER, GROUP, RESULTS, DATA)

_MEANT_FOR_COMPOSE = re.compile(r"[$:{}]")
"""A colon ends a mount's source, and for Compose 1.29 a variable ends at the last `}}` of the text."""


def stands_in_a_mount(text: str) -> bool:
    """Whether every Compose reads the text literally in the source of a mount beside a variable."""
    return not _MEANT_FOR_COMPOSE.search(text)


@dataclass(frozen=True, slots=True)
class Filled:
    """A text that contains variables."""

    parts: tuple[str | Variable, ...]

    def __str__(self) -> str:
        return "".join(str(part) if isinstance(part, Variable) else part.replace("$", "$$") for part in self.parts)


def filled(*parts: str | Variable) -> Filled:
    return Filled(parts)


def found_in(text: str, variable: Variable) -> Filled:
    """Wraps a text that already contains a variable in its written form."""
    first, *others = text.split(str(variable))
    return Filled((first, *(part for other in others for part in (variable, other))))


def dump(value: object) -> str:
    """Dumps a value for the file: only variables are substituted, any other text is literal."""
    match value:
        case Variable() | Filled():
            return yaml_value(str(value))
        case float():
            return format_number(value)
        case list() | tuple():
            return f"[{', '.join(map(dump, value))}]"
        case _:
            return compose_value(value)
