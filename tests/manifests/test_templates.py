"""No value can be pasted into a template, and whatever is dumped is read back as it was."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

import testbed
from testbed.manifests.templates import compose_value, fill, shell_word, yaml_value

TEMPLATES = sorted((Path(testbed.__file__).parent.parent / "templates").glob("*.j2"))
TRAPS = (
    "yes",
    "012",
    "a: b",
    "12:30:00",
    "",
    "~",
    "null",
    "- x",
    "#",
    "é",
    "\x85",
    "\u2028",
    "\U0001f600",
    "\x7f",
    "a\nb",
)


@pytest.mark.parametrize("text", TRAPS)
def test_texts_that_look_like_something_else_stay_texts(text: str) -> None:
    assert yaml.safe_load(f"{yaml_value(text)}: {yaml_value(text)}") == {text: text}
    assert yaml.safe_load(f"- {yaml_value([text, 1, True])}") == [[text, 1, True]]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_text_is_read_back(text: str) -> None:
    assert yaml.safe_load(yaml_value(text)) == text
    assert yaml.safe_load(compose_value(text)) == text.replace("$", "$$")


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1))
def test_a_word_of_a_shell_stays_one(text: str) -> None:
    assert shlex.split(shell_word(text)) == [text]


def test_what_is_no_plain_value_has_no_place_in_a_manifest() -> None:
    for value in (None, 0.1, {"a": 1}, object()):
        with pytest.raises(TypeError):
            yaml_value(value)


def test_a_forgotten_value_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        fill("kollaps-README.txt.j2", shell_word, is_swarm=True, network="n")


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_put_no_quotes_around_values_and_trust_none(path: Path) -> None:
    """Quotes around a dumped value would undo the dumping; `safe` would skip it in other set-ups."""
    text = path.read_text()
    assert '"{{' not in text
    assert "'{{" not in text
    assert "safe" not in text


def test_json_is_what_plain_texts_are_dumped_as() -> None:
    assert yaml_value("n1-é") != json.dumps("n1-é")
    assert yaml_value('n1 "x"') == json.dumps('n1 "x"')
