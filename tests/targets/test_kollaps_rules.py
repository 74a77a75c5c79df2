"""Every rule of Kollaps: a file that breaks it has the finding at the right line, and the same file put right has not."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from tests.targets.judging import XML, XML_EVENTS, YAML, changed, judged, only
from testbed.errors import Severity, has_errors

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
    case("name-length", WARNING, XML, *renamed_b(LONG_24), line=6, words="leaves 1 characters"),
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
    case("active-paths", ERROR, XML, ("['b']", "['x']"), words="panics"),
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
    # paths
    case("unreachable", WARNING, XML, ('<link origin="y_1" dest="b"', '<link origin="y_1" dest="x"'), line=1),
    case("transit", WARNING, YAML, ("to: b,", "to: b,"), ("bridges: [x]", "bridges: [x]\n"), line=None),
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
