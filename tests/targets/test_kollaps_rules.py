"""Every rule of Kollaps: a file that breaks it has the finding at the right line; the same file put right has not."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from testbed.errors import Severity, has_errors
from tests.targets.judging import XML, XML_EVENTS, YAML, changed, judged, only

ERROR, WARNING = Severity.ERROR, Severity.WARNING


class Case(NamedTuple):
    code: str
    severity: Severity
    base: str
    changes: tuple[tuple[str, str], ...]
    line: int | None = None
    """Where the finding is; None: at the first change."""
    words: str = ""
    """In its message or hint."""


def case(
    code: str,
    severity: Severity,
    base: str,
    *changes: tuple[str, str],
    line: int | None = None,
    words: str = "",
) -> Case:
    return Case(f"kollaps-{code}", severity, base, changes, line, words)


A = '<service name="a" image="i:1" command="[\'serve\',\'--port=1\']" activepaths="[\'b\']"/>'
B = '<service name="b" image="i:1"/>\n  </services>\n  <bridges><bridge name="x"/><bridge name="y_1"/>'
LINK_A = 'origin="a" dest="x" latency="1" upload="10Mbps" download="5Mbps"'
JOIN_B = '<schedule name="b" time="3" action="join" amount="2"/>'
CHANGE = '<schedule origin="a" dest="x" time="10" latency="2" upload="9Mbps" download="9Mbps"/>'
DASHBOARD = '    <service name="dashboard" image="d:1" supervisor="true" port="8088"/>\n'
LONG_24, LONG_25, LONG_19 = "b" * 24, "b" * 25, "b" * 19


def renamed_b(name: str) -> tuple[tuple[str, str], ...]:
    return (
        (B, B.replace('"b"', f'"{name}"')),
        ('dest="b"', f'dest="{name}"'),
        ("activepaths=\"['b']\"", ""),
    )


CASES = [
    # the document
    case("prolog", ERROR, XML, ("<experiment", "<!-- first -->\n<experiment"), line=1),
    case("boot", WARNING, XML, ("kollaps:2.0", "kollaps:1.0"), line=1),
    # the dashboard
    case("no-supervisor", ERROR, XML, (DASHBOARD, ""), line=4, words='supervisor="true" port="8088"'),
    case("two-supervisors", ERROR, XML, (A, A + "\n" + DASHBOARD.replace('"dashboard"', '"dashboard2"')), line=6),
    case("supervisor-name", ERROR, XML, ('name="dashboard"', 'name="board"')),
    case("supervisor-port", ERROR, XML, (' port="8088"', ' port="80"')),
    case("supervisor-port", ERROR, XML, (' port="8088"', "  "), words="has no port"),
    case("supervisor-replicas", ERROR, XML, (' port="8088"', ' port="8088" replicas="2"')),
    case("supervisor", ERROR, XML, (A, A.replace("/>", ' supervisor="false"/>'))),
    case("port", WARNING, XML, (A, A.replace("/>", ' port="80"/>'))),
    # names
    case("name", ERROR, XML, *renamed_b("b_1"), line=6),
    case("name", ERROR, XML, *renamed_b("b.x"), line=6),
    case("name-type", ERROR, XML, *renamed_b("12"), line=6),
    case("name-type", ERROR, XML, *renamed_b("no"), line=6),
    case("name-length", WARNING, XML, *renamed_b(LONG_19), line=6, words="leaves 6 characters"),
    case("name-length", WARNING, XML, *renamed_b(LONG_24), line=6, words="leaves 1 character for"),
    case("name-length", ERROR, XML, *renamed_b(LONG_25), line=6),
    case("upper-case", WARNING, XML, *renamed_b("fastB"), line=6),
    case("reserved-name", ERROR, XML, *renamed_b("my-logger"), line=6),
    case("reserved-name", ERROR, XML, *renamed_b("dashboards"), line=6),
    # commands and active paths
    case("command", WARNING, XML, ("['serve','--port=1']", "serve 1")),
    case("command-quoting", ERROR, XML, ("'--port=1'", "'two words'"), words="two words"),
    case("command-quoting", ERROR, XML, ("'--port=1'", "'$HOME'")),
    case("command-quoting", ERROR, XML, ("'--port=1'", "''")),
    case("active-paths", ERROR, XML, ("['b']", "['b', 'b']")),
    case("active-replicas", ERROR, XML, (B, B.replace('"i:1"', '"i:1" replicas="2"')), line=5),
    case(
        "active-events",
        ERROR,
        XML_EVENTS,
        ('<service name="a" image="i:1"/>', '<service name="a" image="i:1" activepaths="[\'a\']"/>'),
    ),
    # links
    case("unit", ERROR, XML, (LINK_A, LINK_A.replace('"1"', '"1ms"'))),
    case("unit", ERROR, XML, ('drop="0.01"', 'drop="1%"')),
    case("unit", ERROR, XML, ('pool_period="0.1"', 'pool_period="100ms"')),
    case("rate", ERROR, XML, (LINK_A, LINK_A.replace("10Mbps", "1.5Mbps"))),
    case(
        "rate",
        ERROR,
        YAML,
        ("from: a, to: x, latency: 1ms, rate: 10Mbps", "from: a, to: x, latency: 1ms, rate: 1500bps"),
    ),
    case("one-way", ERROR, XML, (' download="5Mbps"', "")),
    case("one-way", ERROR, YAML, ("from: a, ", "one-way: true, from: a, ")),
    case("asymmetric", ERROR, YAML, ("from: a, ", "back: {latency: 2ms}, from: a, "), words="latency"),
    case(
        "asymmetric", ERROR, YAML, ("from: a, ", "back: {loss: 2%, jitter: 0.1ms}, from: a, "), words="jitter and loss"
    ),
    case("share", ERROR, YAML, ("from: a, ", "shared: true, from: a, "), words="0.001ms"),
    case("share", ERROR, XML, (A, A.replace("/>", ' share="true" replicas="2"/>')), line=10),
    case("networks", ERROR, XML, ('drop="0.01" network="n"', 'drop="0.01" network="m"')),
    case("zero-latency", ERROR, XML, (LINK_A, LINK_A.replace('"1"', '"0"')), ('latency="5"', 'latency="0"')),
    case("no-links", ERROR, YAML, (YAML[YAML.index("  - {from: a") :], ""), ("links:", "links: []"), line=2),
    case("too-many-links", ERROR, YAML, ("replicas: 2", "replicas: 32767"), line=7, words="65536"),
    case("netem-limit", WARNING, XML, ('latency="5"', 'latency="8001"'), words="1000 packets"),
    case("one-to-many", WARNING, XML, (B, B.replace('"i:1"', '"i:1" replicas="2"')), line=10),
    case("cannot-say", ERROR, YAML, ("from: a, ", "queue: 10ms, from: a, ")),
    case("cannot-say", ERROR, YAML, ("b: {}", "b: {cpus: 2}")),
    # events
    case(
        "no-join",
        ERROR,
        XML_EVENTS,
        ('<schedule name="a" time="0" action="join"/>', ""),
        ('<schedule name="a" time="30" action="crash"/>', ""),
        line=4,
        words='<schedule name="a" time="0"',
    ),
    case("leave", WARNING, XML_EVENTS, ('action="crash"', 'action="leave"')),
    case("event-order", ERROR, XML_EVENTS, (CHANGE, CHANGE.replace('"10"', '"12"')), line=16),
    case("one-way-event", WARNING, XML_EVENTS, (' download="9Mbps"/>', "/>")),
    case(
        "replica-link",
        ERROR,
        XML_EVENTS,
        ('<schedule name="a" time="0" action="join"/>', '<schedule name="a" time="0" action="join" amount="2"/>'),
        line=17,
    ),
    case("link-join", ERROR, XML_EVENTS, ('time="11" action="leave"', 'time="11" latency="1"'), line=17),
    case("bridge-join", ERROR, XML_EVENTS, ('<schedule name="x" time="13" action="leave"/>', ""), line=19),
    case("reconnect", ERROR, XML_EVENTS, ('action="reconnect"', 'action="reconnect" amount="2"')),
    case("event-spacing", WARNING, XML_EVENTS, ('time="11.5"', 'time="11.25"'), words="0.25s late"),
    case(
        "replicas",
        Severity.NOTE,
        XML_EVENTS,
        ('<service name="b" image="i:1"/>', '<service name="b" image="i:1" replicas="2"/>'),
    ),
]


def line_of(case: Case) -> int:
    if case.line is not None:
        return case.line
    return case.base[: case.base.index(case.changes[0][0])].count("\n") + 1


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_a_file_that_breaks_the_rule_says_so_where_it_does(case: Case) -> None:
    text = changed(case.base, *case.changes)
    found = only(judged(text), case.code)
    assert found, f"no {case.code}"
    assert {finding.severity for finding in found} == {case.severity}
    assert found[0].where.line == line_of(case)
    assert case.words in " ".join((found[0].message, found[0].hint))
    assert found[0].hint or case.code in HINTLESS
    assert not only(judged(case.base), case.code)


HINTLESS = {"kollaps-unit", "kollaps-active-paths"}
"""Notes of the reader that say it all in their message."""


def test_files_without_a_fault_have_only_what_cannot_be_seen_from_them() -> None:
    assert {finding.code for finding in judged(XML)} == {"kollaps-images"}
    assert {finding.code for finding in judged(XML_EVENTS)} == {"kollaps-images", "kollaps-one-to-many"}
    assert not has_errors(judged(YAML))


def test_a_name_of_eighteen_characters_leaves_enough_for_the_stack() -> None:
    assert not only(judged(changed(XML, *renamed_b("b" * 18))), "kollaps-name-length")


def test_a_way_back_of_another_entry_does_not_make_a_link_asymmetric() -> None:
    one_way = "  - {from: x, to: b, latency: 9ms, rate: 1Mbps, one-way: true}\n"
    both_ways = "  - {from: b, to: x, latency: 1ms, rate: 10Mbps}\n"
    found = judged(YAML[: YAML.rindex("  - ")] + one_way + both_ways)
    assert [finding.where.line for finding in only(found, "kollaps-one-way")] == [8]
    assert not only(found, "kollaps-asymmetric")


def test_images_are_named_once() -> None:
    (finding,) = only(judged(XML.replace('"b" image="i:1"', '"b" image="other:2"')), "kollaps-images")
    assert "`i:1`, `other:2`" in finding.message
    assert "d:1" not in finding.message


def test_the_most_links_that_kollaps_can_number() -> None:
    text = changed(YAML, ("replicas: 2", "replicas: 32766"), ("to: b,", "to: b,"))
    assert not only(judged(text), "kollaps-too-many-links")


def test_the_queue_of_a_thousand_packets_is_enough_at_just_the_product_of_rate_and_latency() -> None:
    at_limit = changed(XML, ('latency="5"', 'latency="7999"'))  # 1.5 Mbps over 8 s are 1000 packets
    assert not only(judged(at_limit), "kollaps-netem-limit")


PATHS = """
services:
  a: {}
  m: {}
  b: {}
bridges: [x, y]
links:
  - {from: a, to: m, latency: 1ms, rate: 1Mbps}
  - {from: m, to: b, latency: 1ms, rate: 1Mbps}
"""
DIAMOND = """
services:
  a: {}
  b: {}
bridges: [x, y]
links:
  - {from: a, to: x, latency: 1ms, rate: 1Mbps}
  - {from: a, to: y, latency: 1ms, rate: 1Mbps}
  - {from: x, to: b, latency: 1ms, rate: 1Mbps}
  - {from: y, to: b, latency: 1ms, rate: 1Mbps}
"""


@pytest.mark.parametrize(
    ("code", "broken", "right"),
    [
        ("transit", PATHS, PATHS.replace("m: {}", "z: {}").replace("[x, y]", "[x, y, m]")),
        ("unreachable", PATHS.replace("to: b,", "to: x,"), PATHS),
        ("ties", DIAMOND, DIAMOND[: DIAMOND.rindex("  - ")]),
    ],
)
def test_what_is_doubtful_about_paths_is_a_warning_of_kollaps_too(code: str, broken: str, right: str) -> None:
    (finding,) = only(judged(broken), f"kollaps-{code}")
    assert finding.severity is Severity.WARNING
    assert not only(judged(broken), code)
    assert not only(judged(right), f"kollaps-{code}")
    if code == "ties":
        assert "random" in finding.message + finding.hint


def test_zero_latency_counts_by_path_and_not_by_link() -> None:
    assert 'latency="0"' in XML
    near = XML.replace('latency="1"', 'latency="0"').replace('latency="5"', 'latency="0.001"')
    assert not only(judged(near), "kollaps-zero-latency")
    (finding,) = only(judged(near.replace("0.001", "0")), "kollaps-zero-latency")
    assert re.match(r"2 pairs .*`a.0` to `b.0`", finding.message)


def test_a_shared_access_link_is_one_problem_and_not_two() -> None:
    found = {finding.code for finding in judged(changed(YAML, ("from: a, ", "shared: true, from: a, ")))}
    assert "kollaps-share" in found
    assert "kollaps-zero-latency" not in found


def test_the_rewrite_that_the_hint_of_a_shared_link_proposes_is_right() -> None:
    text = changed(YAML, ("[x]", "[x, agg]"), ("from: a, to: x, latency: 1ms", "from: a, to: agg, latency: 0.001ms"))
    assert not has_errors(judged(text + "  - {from: agg, to: x, latency: 1ms, rate: 10Mbps}\n"))


def test_a_kind_is_told_twenty_times_at_most_and_the_rest_counted() -> None:
    services = "".join(f"  s_{i}: {{}}\n" for i in range(45))
    found = only(judged(changed(YAML, ("  b: {}\n", "  b: {}\n" + services))), "kollaps-name")
    assert len(found) == 21
    assert found[-1].message.startswith("25 more")
    assert found[-1].where.line == 5 + 20
    twenty = only(
        judged(changed(YAML, ("  b: {}\n", "  b: {}\n" + services[: services.index("  s_20")]))), "kollaps-name"
    )
    assert len(twenty) == 20
