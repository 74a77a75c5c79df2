"""Mutations of templates of YAML: a row names the section, the setting, and what its value becomes.

`where` is the path of the keys around it, such as `services.control.depends_on`, or `<file>`.
A phrase is `drop KEY`, `rename KEY to TEXT` or `KEY becomes TEXT`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mutating.stale import Stale, no_such

FILE = "<file>"
_SETTING = re.compile(r"^(?P<indent> *)(?P<key>[^\s:#%-][^:#\n]*?|\{\{.*?\}\}):(?P<value>(?: .*)?)$", re.MULTILINE)
_COMMENT = re.compile(r"\s+#.*$")


def broken(text: str, where: str, phrase: str) -> str:
    """The template with one of its lines changed; nothing else is."""
    verb, key, new = _read(phrase)
    line = _line(text, where, key)
    match verb:
        case "drop":
            instead = ""
        case "rename":
            instead = text[slice(*line.span())].replace(key, new, 1)
        case _:
            value = _COMMENT.sub("", line["value"])
            instead = f"{line['indent']}{line['key']}: {new}{line['value'][len(value) :]}"
    end = line.end() + (not instead)  # a dropped line takes its end with it
    changed = text[: line.start()] + instead + text[end:]
    if changed == text:
        raise Stale("this changes nothing")
    return changed


def phrases(text: str, where: str) -> Iterator[tuple[str, str]]:
    """The settings of a section, each with what could become of it."""
    settings = _settings(text)
    if where not in settings:
        raise no_such("section", where, settings)
    for setting in (each for each in settings[where] if each["value"]):  # what others stand below cannot go alone
        yield setting[0].strip(), f"drop {setting['key']}"


def _read(phrase: str) -> tuple[str, str, str]:
    if match := re.fullmatch(r"drop (.+)", phrase):
        return "drop", match[1], ""
    if match := re.fullmatch(r"rename (.+) to (.+)", phrase):
        return "rename", match[1], match[2]
    if match := re.fullmatch(r"(.+?) becomes (.+)", phrase):
        return "becomes", match[1], match[2]
    raise Stale(f"`{phrase}` is none of `drop KEY`, `rename KEY to TEXT`, `KEY becomes TEXT`")


def _line(text: str, where: str, key: str) -> re.Match[str]:
    """The setting `key` of the section `where`."""
    settings = _settings(text)
    if where not in settings:
        raise no_such("section", where, settings)
    found = [setting for setting in settings[where] if setting["key"] == key]
    if not found:
        raise no_such("setting", key, [setting["key"] for setting in settings[where]])
    if len(found) > 1:
        raise Stale(f"{where} has {len(found)} settings {key}")
    return found[0]


def _settings(text: str) -> dict[str, list[re.Match[str]]]:
    """By the section that they stand in, which is told by their indent."""
    found: dict[str, list[re.Match[str]]] = {}
    above: list[tuple[int, str]] = []
    for setting in _SETTING.finditer(text):
        indent = len(setting["indent"])
        above = [each for each in above if each[0] < indent]
        found.setdefault(".".join(key for _, key in above) or FILE, []).append(setting)
        above.append((indent, setting["key"]))
    return found
