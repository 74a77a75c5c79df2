"""What the rows of `scripts/mutations.toml` can say: every operator, every kind of place, and how a row goes stale."""

from __future__ import annotations

import ast
import textwrap

import pytest

from mutating import c_text, templates
from mutating.descriptions import descriptions
from mutating.edits import with_change
from mutating.kinds import KINDS
from mutating.listing import phrases
from mutating.operators import OPERATORS, change
from mutating.places import find
from mutating.scopes import MODULE, Source
from mutating.stale import Stale

TEXT = textwrap.dedent(
    '''
    """About links."""
    from __future__ import annotations

    import math

    LIMIT_S, SHARE = 0.5, 0.1
    NAMES: dict[str, int] = {"a": 1, "b": 2}


    class Link:
        """One."""

        size: int = 5

        def push(self, frames, times=(1, 2)):
            """Takes `LIMIT_S` at most."""
            wait = max(self.backlog - times[0], 0.0)   # never less
            if wait > LIMIT_S and not self.up:
                self.dropped += len(frames)
                raise ValueError(f"{wait} s, after {self.name} said \\"no\\"")
            elif self.open or frames:
                self.send(frames, flags=0, late=True)
            kept = [each.size * 8 for each in frames if each.is_whole]
            low, high = (0.0, 1.0)
            while low <= wait <= high:
                self.close()
            with self.lock:
                yield from kept
            try:
                self.close()
            except (OSError, KeyError):
                await_ = {1, 2}
            self.mark(b"came", [1, 2][:1])
            self.say(lambda: "late" if wait else "", times or self.times)
            return wait / SHARE if self.up else None
    '''
).lstrip()


def broken(phrase: str, where: str = "Link.push", text: str = TEXT) -> str:
    source = Source(text)
    return with_change(source, change(phrase, source.scope(where)))


def line_of(phrase: str, where: str = "Link.push") -> str:
    """The one line that the phrase changes, as it is then."""
    before, after = TEXT.splitlines(), broken(phrase, where).splitlines()
    assert len(before) == len(after)
    [changed] = [new for old, new in zip(before, after, strict=True) if old != new]
    return changed.strip()


MADE = {
    "drop assignment dropped": "pass",
    "drop raise": "pass",
    "drop raise ValueError": "pass",
    "drop call send": "pass",
    "drop operand 2 of and": "if (wait > LIMIT_S):",
    "drop operand 1 of if naming LIMIT_S": "if (not self.up):",
    "drop argument flags of call send": "self.send(frames, late=True)",
    "drop argument late": "self.send(frames, flags=0)",
    "drop argument 1 of call send": "self.send(flags=0, late=True)",
    "drop filter": "kept = ([each.size * 8 for each in frames])",
    "drop element 1 of set": "await_ = ({2})",
    "drop element 2 of except": "except ((OSError,)):",
    "drop right of comparison <=": "while (low <= wait):",
    "drop left of while": "while (wait <= high):",
    "negate operand 2 of and": "if wait > LIMIT_S and self.up:",
    "negate while": "while (not low <= wait <= high):",
    "set if naming LIMIT_S to False": "if False:",
    "set if naming open to False": "elif False:",
    "set return to False": "return False",
    "set argument flags to None": "self.send(frames, flags=None, late=True)",
    "set condition of choice in lambda to True": (
        'self.say(lambda: "late" if True else "", times or self.times)'
    ),
    "set literal 8 to -1": "kept = [each.size * (-1) for each in frames if each.is_whole]",
    "scale name LIMIT_S by 1.3": "if wait > (1.3 * LIMIT_S) and not self.up:",
    "scale literal 8 by 2": "kept = [each.size * 16 for each in frames if each.is_whole]",
    "scale argument 1 of call max by 2": "wait = max((2 * (self.backlog - times[0])), 0.0)   # never less",
    "swap comparison > with >=": "if (wait >= LIMIT_S) and not self.up:",
    "swap and with or": "if (wait > LIMIT_S or not self.up):",
    "swap operation / with *": "return (wait * SHARE) if self.up else None",
    "swap assignment dropped with -": "self.dropped -= len(frames)",
    "swap call max with min": "wait = min(self.backlog - times[0], 0.0)   # never less",
    "swap call mark with send": (
        'self.send(b"came", [1, 2][:1])'
    ),
    "swap name OSError with KeyError": "except (KeyError, KeyError):",
    "keep argument 1 of call max": "wait = (self.backlog - times[0])   # never less",
    "keep left of operation -": "wait = max(self.backlog, 0.0)   # never less",
    "keep then of return": "return (wait / SHARE)",
    "keep literal None in return": "return None",
    "keep object of subscript #2/2": 'self.mark(b"came", ([1, 2]))',
    "copy argument 1 of call len over while": "while frames:",
    'respell text "am" as "an"': 'self.mark(b\'cane\', [1, 2][:1])',
    'respell text "after " as ""': """raise ValueError(f'{wait} s, {self.name} said "no"')""",
    "drop stop of index of subscript #2/2": (
        'self.mark(b"came", [1, 2][:])'
    ),
    "call len becomes _argument_1[0] + 1": "self.dropped += (frames[0] + 1)",
    "while becomes _ and self.up": "while (low <= wait <= high and self.up):",
    "default becomes (LIMIT_S, 0)": "def push(self, frames, times=((LIMIT_S, 0))):",
}  # fmt: skip


@pytest.mark.parametrize("phrase", MADE)
def test_a_phrase_changes_one_place_and_nothing_beside_it(phrase: str) -> None:
    assert line_of(phrase) == MADE[phrase]


def test_every_operator_is_tried_here() -> None:
    assert {phrase.split()[0] for phrase in MADE} >= set(OPERATORS) - {"add"}


def test_outside_of_functions() -> None:
    assert line_of("scale value LIMIT_S by 2", MODULE) == "LIMIT_S, SHARE = 1.0, 0.1"
    assert line_of("set value size to 6", "Link") == "size: int = 6"
    assert line_of("drop element 1 of value NAMES", MODULE) == "NAMES: dict[str, int] = ({'b': 2})"
    assert "import math.x\nimport math\n" in broken("add import math.x", MODULE)


@pytest.mark.parametrize(
    ("phrase", "where", "said"),
    [
        ("drop return", "Link.pusj", "no function or class Link.pusj; the nearest name is Link.push"),
        ("drop return", "push", "no function or class push; the nearest name is Link.push"),
        ("drop return", "<modul>", "no function or class <modul>; the nearest name is <module>"),
        ("drop call sent", "Link.push", "no call sent; the nearest name is send"),
        ("drp return", "Link.push", "no operator drp; the nearest name is drop"),
        ("drop retur", "Link.push", "no kind of place retur; the nearest name is return"),
        ("keep argument 3 of call max", "Link.push", "no part argument 3; the nearest name is argument 2"),
        ("drop if", "Link.push", "`if` stands there 2 times"),
        ("drop if #1/3", "Link.push", "`if #1/3`: there are 2 now"),
        ("drop call close", "Link.push", "`call close` stands there 2 times"),
        ("set literal None to None", "Link.push", "this changes nothing"),
        ("set while to wait", "Link.push", "`wait` is no literal: `while becomes wait`"),
        ("while becomes wait", "Link.push", "wait is a local variable: use `_`, or `copy`"),
        ("while becomes LIMIT", "Link.push", "no name in this file called LIMIT; the nearest name is LIMIT_S"),
        ("while becomes )", "Link.push", "`)` is no expression"),
        ("swap comparison > with =>", "Link.push", "no operator =>; the nearest name is >"),
        ("drop argument", "Link.push", "`argument` stands there 2 times"),
        ('set text "after " to 1', "Link.push", "this cannot be written: Unexpected node inside JoinedStr"),
        ("drop left", "Link.push", "`left` is a part: `left of …`"),
        ("set while", "Link.push", "`while`: `to` is missing"),
    ],
)
def test_a_stale_row_says_what_is_there_instead(phrase: str, where: str, said: str) -> None:
    with pytest.raises(Stale) as caught:
        broken(phrase, where)
    assert str(caught.value).startswith(said)


def test_a_place_survives_other_names_of_variables_other_lines_and_another_order() -> None:
    first, last = "        low, high = (0.0, 1.0)\n", "        wait = max"
    text = TEXT.replace(first, "").replace(last, f"        self.tell()\n{first}{last}")
    text = text.replace("wait", "delay").replace("frames", "pieces").replace("each", "one")
    text = text.replace("delay > LIMIT_S", "delay \\\n                > LIMIT_S")
    for phrase in MADE:
        ast.parse(broken(phrase, text=text))


def test_whatever_a_place_is_called_finds_it() -> None:
    scope = Source(TEXT).scope("Link.push")
    described = {node: list(descriptions(node, scope)) for node in scope.nodes}
    assert sum(map(len, described.values())) > 500
    for node, places in described.items():
        assert all(find(place, scope) is node for place in places)
    kinds = {step.kind for places in described.values() for place in places for step in place.steps}
    assert set(KINDS) - kinds <= {"break", "for", "case", "await", "dict", "yield", "name", "not", "or", "set"}


def test_the_list_of_a_function_holds_only_what_can_be_done() -> None:
    scope = Source(TEXT).scope("Link.push")
    listed = [phrase for _, phrase in phrases(scope)]
    assert {"drop raise", "set if naming open to False", "swap comparison > with >=", "drop filter"} <= set(listed)
    made = [with_change(scope.source, change(phrase, scope)) for phrase in listed]
    assert len(made) == len(set(made)) > 50


TEMPLATE = textwrap.dedent(
    """
    # of a run: all of it
    x-part: &part
      user: {{ user }}  # nobody
    {% for name in names %}
      {{ name.key }}:
        user: root
        volumes:
          - {{ mount }}
    {% endfor %}
    """
)


def test_a_line_of_a_template_is_named_by_the_keys_around_it() -> None:
    def changed(where: str, phrase: str) -> list[str]:
        lines = TEMPLATE.splitlines()
        return [line for line in templates.broken(TEMPLATE, where, phrase).splitlines() if line not in lines]

    assert changed("x-part", "user becomes root") == ["  user: root  # nobody"]
    assert changed("x-part", "rename {{ name.key }} to {{ name.text }}") == ["  {{ name.text }}:"]
    assert templates.broken(TEMPLATE, "x-part.{{ name.key }}", "drop user") == TEMPLATE.replace("    user: root\n", "")
    assert dict(templates.phrases(TEMPLATE, "x-part.{{ name.key }}")) == {"user: root": "drop user"}


@pytest.mark.parametrize(
    ("where", "phrase", "said"),
    [
        ("x-prt", "drop user", "no section x-prt; the nearest name is x-part"),
        ("x-part", "drop uzer", "no setting uzer; the nearest name is user"),
        ("x-part", "user becomes {{ user }}", "this changes nothing"),
        ("x-part", "negate user", "`negate user` is none of `drop KEY`, `rename KEY to TEXT`, `KEY becomes TEXT`"),
    ],
)
def test_a_stale_row_of_a_template_says_what_is_there_instead(where: str, phrase: str, said: str) -> None:
    with pytest.raises(Stale) as caught:
        templates.broken(TEMPLATE, where, phrase)
    assert str(caught.value) == said


C_TEXT = """static int most(int one, int other)
{
    if (one > other)
        return one;
    return other;
}

int least(int one,
          int other)
{
    return one + other -
           most(one, other);
}
"""


@pytest.mark.parametrize(
    ("where", "phrase", "old", "new"),
    [
        ("most", "one > other becomes one < other", "one > other", "one < other"),
        ("most", "drop if (one > other) return one;", "if (one > other)\n        return one;", ""),
        ("least", "one + other - most becomes most", "one + other -\n           most", "most"),
    ],
)
def test_a_text_of_a_c_function_becomes_another(where: str, phrase: str, old: str, new: str) -> None:
    assert c_text.broken(C_TEXT, where, phrase) == C_TEXT.replace(old, new)


@pytest.mark.parametrize(
    ("where", "phrase", "why"),
    [
        ("most", "drop other", "3 times"),
        ("most", "drop least", "0 times"),
        ("more", "drop other", "no function more; the nearest name is most"),
        ("most", "one", "none of"),
        ("most", "one > other becomes one > other", "changes nothing"),
    ],
)
def test_a_row_of_c_that_says_nothing_or_several_things_is_stale(where: str, phrase: str, why: str) -> None:
    with pytest.raises(Stale, match=why):
        c_text.broken(C_TEXT, where, phrase)


def test_the_statements_of_a_c_function_are_listed() -> None:
    assert [phrase for _, phrase in c_text.phrases(C_TEXT, "most")] == ["drop return one;", "drop return other;"]
