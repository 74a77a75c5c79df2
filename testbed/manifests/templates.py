"""Fills templates; every value is dumped by a serializer, never pasted.

Takes the name of a file in `templates/` and values, gives text; reads that file only. Jinja itself calls the dumper
last, so a template cannot write a value without it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from functools import cache
from pathlib import Path

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.runtime import Undefined

import testbed

_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_ON_ONE_LINE = 2**31 - 1
_PACKAGE = Path(testbed.__file__).parent
_FOLDERS = _PACKAGE / "templates", _PACKAGE.parent / "templates"
"""Folders of templates in an installed wheel, and in a checkout."""


def yaml_value(value: object) -> str:
    """A text, number, boolean or list of them on one line, which YAML 1.1 and 1.2 read alike."""
    if isinstance(value, Undefined):
        return str(value)  # raises, and names what is missing
    if isinstance(value, str):
        if value.isascii() and value.isprintable():
            return json.dumps(value)
        return _double_quoted(value)
    if isinstance(value, bool | int):
        return json.dumps(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(yaml_value, value))}]"
    raise TypeError(f"{type(value).__name__} has no place in a manifest")


def _double_quoted(text: str) -> str:
    dumped: str = yaml.dump(text, Dumper=_DUMPER, default_style='"', width=_ON_ONE_LINE)
    return dumped.rstrip("\n")


def compose_value(value: object) -> str:
    """The same for a Compose file, in which Docker substitutes `$NAME`."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(compose_value, value))}]"
    return yaml_value(value.replace("$", "$$") if isinstance(value, str) else value)


def shell_word(value: object) -> str:
    """A word of a command line, quoted for a shell."""
    return shlex.quote(str(value))


def fill(template: str, dump: Callable[[object], str], **values: object) -> str:
    """The template with every value dumped; raises if it needs a value that is not given."""
    return _environment(dump).get_template(template).render(**values)


@cache
def _environment(dump: Callable[[object], str]) -> Environment:
    return Environment(
        loader=FileSystemLoader(_FOLDERS),
        autoescape=False,  # noqa: S701 - nothing here is HTML, and `finalize` dumps every value
        finalize=dump,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
