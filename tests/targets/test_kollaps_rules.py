"""Every rule of Kollaps: a file that breaks it has the finding at the right line; the same file put right has not."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from testbed.errors import Severity, Where, has_errors, note, warning
from testbed.targets import Target, kollaps_links
from tests.targets.judging import XML, XML_EVENTS, YAML, changed, judged, judged_topology, loaded, only

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
CREATED = '<schedule origin="a" dest="b" time="10" action="join" latency="2" upload="9Mbps" download="9Mbps"/>'
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
    case("max-age", ERROR, XML, ('max_age="3"', 'max_age="4294967296"'), line=1, words="4294967295"),
    case("pool-period", ERROR, XML, ('pool_period="0.1"', 'pool_period="0"'), line=1),
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
    case("networks", ERROR, XML_EVENTS, (CHANGE, CREATED.replace("/>", ' network="m"/>'))),
    case("zero-latency", ERROR, XML_EVENTS, (CHANGE, CREATED.replace('"2"', '"0"')), words="from `a` to `b` gets"),
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


@pytest.mark.parametrize(("replicas", "one_way", "count"), [(32766, 1, 65535), (32767, 0, 65536)])
def test_the_most_links_that_kollaps_can_number(replicas: int, one_way: int, count: int) -> None:
    text = changed(YAML, ("replicas: 2", f"replicas: {replicas}"))
    text += one_way * "  - {from: b, to: x, latency: 1ms, rate: 10Mbps, one-way: true}\n"
    found = only(judged(text), "kollaps-too-many-links")
    assert [finding.message.split()[0] for finding in found] == (["65536"] if count > 65535 else [])


def test_links_that_events_create_are_numbered_too() -> None:
    text = changed(YAML, ("replicas: 2", "replicas: 32766")) + "events:\n  - {at: 0s, node: [a, b], do: join}\n"
    created = "  - {at: 1s, link: [b, a.0], state: up, latency: 1ms, rate: 1Mbps}\n"
    assert not only(judged(text), "kollaps-too-many-links")
    (finding,) = only(judged(text + created), "kollaps-too-many-links")
    assert "65536 directed links" in finding.message
    assert "the 2 that events create" in finding.message


def test_what_the_reader_told_of_one_link_does_not_hide_another() -> None:
    told = {"rate": "rate: 1500bps", "one-way": "rate: 10Mbps, one-way: true"}
    asymmetric = YAML + "  - {from: a, to: b, latency: 1ms, rate: 10Mbps, back: {latency: 2ms}}\n"
    for what, words in told.items():
        file = loaded(asymmetric.replace("rate: 10Mbps}", words + "}")).require()
        first, second = (link.where for link in (file.links[0], file.links[-3]))
        assert first is not None
        inside = Where(first.line, first.column + 5)
        found = judged_topology(file, Target.KOLLAPS, (note(f"kollaps-{what}", "told", "", inside),))
        places = [finding.where for finding in only(found, f"kollaps-{what}") if finding.message != "told"]
        assert first not in places
        assert second in places
        assert [finding.where.line for finding in only(found, "kollaps-asymmetric")] == [9]


def test_what_the_reader_told_of_one_event_does_not_hide_another() -> None:
    events = "".join(f"  - {{at: {at}s, bridge: x, state: {state}}}\n" for at, state in ((9, "down"), (8, "up")))
    file = loaded(YAML + "events:\n" + events + events.replace("9s", "7s").replace("8s", "6s")).require()
    places = [event.where for event in file.events if event.where]
    told = note("kollaps-event-order", "told", "", places[1])
    found = only(judged_topology(file, Target.KOLLAPS, (told,)), "kollaps-event-order")
    assert [(finding.where, finding.message == "told") for finding in found] == [
        (places[1], True),
        (places[2], False),
        (places[3], False),
    ]


@pytest.mark.parametrize("name", ["rate", "one-way", "event-order"])
def test_what_the_reader_told_is_told_once(name: str) -> None:
    broken = {
        "rate": changed(XML, (LINK_A, LINK_A.replace("10Mbps", "1500bps"))),
        "one-way": changed(XML, (' download="5Mbps"', "")),
        "event-order": changed(XML_EVENTS, (CHANGE, CHANGE.replace('"10"', '"12"'))),
    }[name]
    assert len(only(judged(broken), f"kollaps-{name}")) == {"event-order": 2}.get(name, 1)


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


ZERO_EVENTS = (
    YAML
    + """\
events:
  - {at: 0s, node: a, do: join}
  - {at: 0s, node: b, do: join}
"""
)


def zero_latencies(text: str) -> list[tuple[Severity, int]]:
    """Severities, and lines counted from the end of the file."""
    last = text.count("\n")
    return [(each.severity, each.where.line - last) for each in only(judged(text), "kollaps-zero-latency")]


def test_a_link_that_an_event_creates_counts_where_it_joins_nodes() -> None:
    created = "  - {at: 1s, link: [a, b], state: up, latency: 0ms, rate: 1Mbps}\n"
    assert zero_latencies(ZERO_EVENTS + created) == [(ERROR, 0)]
    assert not zero_latencies(ZERO_EVENTS + created.replace("0ms", "0.001ms"))


def test_a_link_of_nodes_may_not_get_latency_zero() -> None:
    direct = ZERO_EVENTS.replace("from: a, to: x", "from: a, to: b") + "  - {at: 1s, link: [a, b], latency: 0ms}\n"
    assert zero_latencies(direct) == [(ERROR, 0)]
    assert not zero_latencies(direct.replace("[a, b], latency: 0ms", "[a, b], latency: 1us"))


def test_a_link_may_get_latency_zero_where_no_other_is_beside_it() -> None:
    near_b = "  - {at: 1s, link: [x, b], latency: 0ms}\n"
    assert not zero_latencies(ZERO_EVENTS + near_b)
    near_a = "  - {at: 2s, link: [a, x], latency: 0ms}\n"
    assert zero_latencies(ZERO_EVENTS + near_a) == [(WARNING, 0)]  # between the two replicas of a
    single = ZERO_EVENTS.replace("replicas: 2", "replicas: 1")
    assert not zero_latencies(single + near_a)
    assert zero_latencies(single + near_b + near_a + near_a.replace("2s", "3s")) == [
        (WARNING, -2),
        (WARNING, -1),
        (WARNING, 0),
    ]
    declared = single.replace("from: x, to: b, latency: 1ms", "from: x, to: b, latency: 0ms")
    assert zero_latencies(declared + near_a) == [(WARNING, 0)]
    assert not zero_latencies(declared)


def test_the_legs_of_a_shared_link_make_no_path_with_what_events_do() -> None:
    shared = ZERO_EVENTS.replace("from: a,", "shared: true, from: a,")
    assert not zero_latencies(shared + "  - {at: 1s, link: [a, x], latency: 0ms}\n")


def test_a_created_link_without_latency_counts_between_bridges_too() -> None:
    text = ZERO_EVENTS.replace("replicas: 2", "replicas: 1").replace("[x]", "[x, y]").replace("1ms", "0ms", 1)
    created = "  - {at: 1s, link: [x, y], state: up, latency: 0ms, rate: 1Mbps}\n"
    assert not zero_latencies(text + created)
    further = "  - {from: y, to: b, latency: 0ms, rate: 10Mbps}\nevents:"
    assert zero_latencies(text.replace("events:", further) + created) == [(WARNING, 0)]


def test_a_longer_route_without_latency_counts_where_something_goes_down() -> None:
    longer = """\
services: {dashboard: {image: d, supervisor: true, port: 8088}, a: {}, b: {}}
bridges: [x]
links:
  - {from: a, to: b, latency: 1ms, rate: 10Mbps}
  - {from: a, to: x, latency: 0ms, rate: 10Mbps}
  - {from: x, to: b, latency: 0ms, rate: 10Mbps}
events:
  - {at: 0s, node: [a], do: join}
  - {at: 0s, node: [b], do: join}
"""
    down = "  - {at: 1s, link: [a, b], state: down}\n"
    assert not zero_latencies(longer)
    assert zero_latencies(longer + down) == [(WARNING, 0)]
    created = "  - {at: 0s, link: [b, x], state: up}\n"
    assert not zero_latencies(longer + created)
    assert not zero_latencies(longer.replace("x, to: b, latency: 0ms", "x, to: b, latency: 1ms") + down)
    assert zero_latencies("routing: latency\n" + longer + down) == [(ERROR, -5)]


def test_of_a_sample_those_sources_come_first_that_have_such_a_path_for_certain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kollaps_links, "_MOST_STEPS", 1)
    text = """\
services: {a: {}, b: {}, c: {}, d: {}}
bridges: [x]
links:
  - {from: a, to: b, latency: 1ms, rate: 10Mbps}
  - {from: a, to: x, latency: 0ms, rate: 10Mbps}
  - {from: x, to: b, latency: 0ms, rate: 10Mbps}
  - {from: c, to: d, latency: 0ms, rate: 10Mbps}
"""
    (finding,) = only(judged(text), "kollaps-zero-latency")
    assert "a pair of nodes has" in finding.message
    assert "`c.0` to `d.0`" in finding.message
    assert "more were not looked at" in finding.message


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


def test_kinds_of_other_severities_or_of_all_targets_and_notes_are_counted_apart_or_not_at_all() -> None:
    near, over = ("".join(f"  {'b' * (length - 2)}{i}: {{}}\n" for i in range(10, 25)) for length in (20, 25))
    found = only(judged(changed(YAML, ("  b: {}\n", "  b: {}\n" + near + over))), "kollaps-name-length")
    assert [finding.severity for finding in found] == [WARNING] * 15 + [ERROR] * 15

    topology = loaded(YAML).require()
    places = [Where(1, column) for column in range(1, 26)]
    foreign = tuple(warning("jitter", "wild", "", where) for where in places)
    assert len(only(judged_topology(topology, Target.KOLLAPS, foreign), "jitter")) == 25
    notes = tuple(note("kollaps-replicas", "of no effect", "", where) for where in places)
    assert len(only(judged_topology(topology, Target.KOLLAPS, notes), "kollaps-replicas")) == 25
