"""What is wrong with a file is said completely, at the right place, under a stable code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed.errors import Finding, InvalidInput, Severity, UsageProblem
from testbed.topologies.load import load, load_bytes
from testbed.topologies.source import MAX_FILE_BYTES, Form
from tests.reference import REFERENCE, needs_reference


def findings(text: str | bytes, form: Form = Form.YAML) -> list[Finding]:
    data = text.encode() if isinstance(text, str) else text
    return list(load_bytes(data, form, "f").findings)


def errors(text: str | bytes, form: Form = Form.YAML) -> set[tuple[str, int, int]]:
    return {(each.code, *each.where) for each in findings(text, form) if each.severity == "error"}


def xml(services: str = "", links: str = "", dynamic: str = "", bridges: str = "<bridge name='s'/>") -> str:
    """A small valid file; the arguments stand on lines 2, 4, 5 and 6."""
    return (
        f"<experiment boot='k'>\n<services>{services}\n"
        "<service name='a' image='i'/><service name='b' image='i'/></services>"
        f"\n<bridges>{bridges}</bridges>\n<links>{links}</links>\n<dynamic>{dynamic}</dynamic></experiment>"
    )


GOOD = "<link origin='a' dest='s' latency='1' upload='1Mbps' download='1Mbps' network='n'/>"


def test_the_small_file_itself_is_valid() -> None:
    assert not findings(xml(links=GOOD), Form.XML)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [1, 2", {("syntax", 1, 9)}),
        ("services:\n\ta: {}", {("syntax", 2, 1)}),
        ("a: b\n---\nc: d", {("several-documents", 2, 1)}),
        ("", {("empty", 1, 1)}),
        ("- a", {("bad-shape", 1, 1)}),
        ("hello", {("bad-shape", 1, 1)}),
        ("services: {a: }\nservice: {}", {("unknown-key", 2, 1)}),
        ("services: {a: {}, a: {}}", {("duplicate-key", 1, 19)}),
        ("services: {a: }\nservices: {b: }", {("duplicate-key", 2, 1)}),
        ("services: {a: {replicas: 010}}", {("yaml-trap", 1, 26)}),
        ("services: {a: {replicas: 0}}", {("bad-value", 1, 26)}),
        ("services: {a: {replicas: -2}}", {("bad-value", 1, 26)}),
        ("services: {a: {replicas: 1.5}}", {("bad-value", 1, 26)}),
        ("services: {a: {replicas: 999999999}}", {("too-many-nodes", 1, 26)}),
        ("services: {a: {replicas: 60000}, b: {replicas: 60000}}", {("too-many-nodes", 1, 11)}),
        ("services: {a: {reuse: no}}", {("bad-value", 1, 23)}),
        ("services: {a: {speed: 0}}", {("bad-value", 1, 23)}),
        ("services: {a: {speed: .inf}}", {("bad-value", 1, 23)}),
        ("services: {a: {image: [x]}}", {("bad-shape", 1, 23)}),
        ("services: {a: {image: }}", {("empty-value", 1, 23)}),
        ("services: [a]", {("bad-shape", 1, 11)}),
        ("services: {}", {("missing", 1, 11)}),
        ("links: []", {("missing", 1, 1)}),
        ("services: {a.1: }", {("bad-name", 1, 12)}),
        ("services: {../../x: }", {("bad-name", 1, 12)}),
        ('services: {"a\\nb": }', {("bad-name", 1, 12)}),
        ("services: {a: }\nbridges: [a]", {("duplicate-name", 2, 11)}),
        ("services: {a: }\nbridges: [r, r]", {("duplicate-name", 2, 14)}),
        ("services: {a: }\nrouting: fastest", {("bad-value", 2, 10)}),
        ("services: !!python/object:os.system {a: }", {("yaml-tag", 1, 11)}),
        ("services: {a: !!int 3}", {("yaml-tag", 1, 15)}),
        ("services: {<<: {a: }}", {("merge-key", 1, 12)}),
        ("services: &x {a: *x}", {("yaml-alias", 1, 18)}),
        ("services: {[a]: b}", {("bad-shape", 1, 12)}),
        ("services: {a: }\nkollaps: {boots: x}", {("unknown-key", 2, 11)}),
        ("services: {a: }\ndefaults: {latency: 1}", {("bad-value", 2, 21)}),
    ],
)
def test_yaml_documents(text: str, expected: set[tuple[str, int, int]]) -> None:
    assert errors(text) == expected


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("{from: a, to: b, latency: 1ms, rate: 1Mbps, bandwith: 3}", {("unknown-key", 2, 53)}),
        ("{from: a, to: b, latency: 5, rate: 1Mbps}", {("bad-value", 2, 35)}),
        ("{from: a, to: b, latency: 12:30:00, rate: 1Mbps}", {("bad-value", 2, 35)}),
        ("{from: a, to: b, latency: 1ms, rate: 0Mbps}", {("bad-value", 2, 46)}),
        ("{from: a, to: b, latency: 1ms, rate: 1Mbps, loss: 1.5}", {("bad-value", 2, 59)}),
        ("{from: a, to: b, latency: 1ms, rate: 1Mbps, loss: 150%}", {("bad-value", 2, 59)}),
        ("{from: a, to: b, latency: 1ms, rate: 1Mbps, queue: 0ms}", {("bad-value", 2, 60)}),
        ("{from: a, to: b, latency: 1ms}", {("missing", 2, 9)}),
        ("{from: a, to: b, rate: 1Mbps}", {("missing", 2, 9)}),
        ("{from: a, to: b, latency: 1ms, up: 1Mbps}", {("missing", 2, 9)}),
        ("{from: a, latency: 1ms, rate: 1Mbps}", {("missing", 2, 9)}),
        ("{from: a, to: zz, latency: 1ms, rate: 1Mbps}", {("unknown-name", 2, 23)}),
        ("{from: a.7, to: b, latency: 1ms, rate: 1Mbps}", {("unknown-name", 2, 16)}),
        ("{from: d, to: b, latency: 1ms, rate: 1Mbps}", {("supervisor", 2, 16)}),
        ("{from: a, to: a, latency: 1ms, rate: 1Mbps}", {("self-link", 2, 9)}),
        ("{from: a, to: a.0, latency: 1ms, rate: 1Mbps}", {("self-link", 2, 9)}),
        ("{from: a, to: b, latency: 1ms, rate: 1Mbps, one-way: true, down: 1Mbps}", {("bad-value", 2, 68)}),
        ("{from: a, to: b, latency: 1ms, rate: 1Mbps, back: {los: 1%}}", {("unknown-key", 2, 60)}),
        ("{from: a, to: b, latency: 1ms, rate: 1Mbps, shared: yes}", {("bad-value", 2, 61)}),
        ("a - b", {("bad-shape", 2, 9)}),
        # several at once, and a wrong link still has its ends checked
        (
            "{from: zz, to: b, latency: 5, loss: x}",
            {("unknown-name", 2, 16), ("bad-value", 2, 36), ("bad-value", 2, 45)},
        ),
    ],
)
def test_yaml_links(link: str, expected: set[tuple[str, int, int]]) -> None:
    assert errors(f"services: {{a: {{replicas: 2}}, b: , d: {{supervisor: true}}}}\nlinks: [{link}]") == expected


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ("{node: a, do: crash}", {("missing", 3, 10)}),
        ("{at: 5, node: a, do: crash}", {("bad-value", 3, 15)}),
        ("{at: 5s, node: zz, do: crash}", {("unknown-name", 3, 25)}),
        ("{at: 5s, node: r, do: crash}", {("unknown-name", 3, 25)}),
        ("{at: 5s, node: a, do: explode}", {("bad-value", 3, 32)}),
        ("{at: 5s, node: a, do: crash, count: 3}", {("event-count", 3, 46)}),
        ("{at: 5s, node: a, do: crash, for: 1s}", {("bad-event", 3, 39)}),
        ("{at: 5s, node: a, do: pause, rejoin: 1s}", {("bad-event", 3, 39)}),
        ("{at: 5s, every: 1s, node: a, do: pause}", {("bad-event", 3, 11)}),
        ("{every: 1s, node: a, do: pause}", {("bad-event", 3, 11)}),
        ("{every: 0s, until: 5s, node: a, do: pause}", {("bad-value", 3, 18)}),
        ("{at: 1s, node: a, do: crash, rejoin: 0s}", {("bad-value", 3, 47)}),
        ("{at: 1s, node: a, do: pause, for: 0s}", {("bad-value", 3, 44)}),
        ("{at: 1s, node: a, do: join, for: 1s}", {("bad-event", 3, 38)}),
        ("{at: 1s, link: [c, r], down: 5Mbps}", {("unknown-link", 3, 25)}),
        ("{at: 1s, link: [c, r], up: 5Mbps, down: 5Mbps}", {("unknown-link", 3, 25)}),
        ("{every: 10s, from: 5s, until: 30s, node: a, do: join, count: 1}", {("event-count", 3, 10)}),
        ("{every: 1s, from: 5s, until: 5s, node: a, do: pause}", {("bad-event", 3, 39)}),
        ("{every: 1ms, until: 1h, node: a, do: pause}", {("too-many-events", 3, 18)}),
        ("{until: 5s, node: a, do: pause}", {("bad-event", 3, 11)}),
        ("{at: 5s, link: [a, zz], loss: 1%}", {("unknown-name", 3, 29)}),
        ("{at: 5s, link: [a, b], loss: 1%}", {("unknown-link", 3, 25)}),
        ("{at: 5s, link: [a, b], state: up, rate: 1Mbps}", {("unknown-link", 3, 25)}),
        ("{at: 5s, link: [a], loss: 1%}", {("bad-shape", 3, 25)}),
        ("{at: 5s, link: [a, r]}", {("bad-event", 3, 10)}),
        ("{at: 5s, link: [a, r], state: down, loss: 2}", {("bad-value", 3, 52)}),
        (
            "{at: 1s, link: [a, b], latency: 9ms}, {at: 5s, link: [a, b], state: up, latency: 3ms, rate: 1Mbps}",
            {("unknown-link", 3, 25)},
        ),
        ("{at: 5s, link: [a, r], rate: 5Mbps, background: 5Mbps}", {("background", 3, 58)}),
        ("{at: 5s, bridge: a, state: down}", {("unknown-name", 3, 27)}),
        ("{at: 5s, bridge: r}", {("missing", 3, 10)}),
        ("{at: 5s, partition: [[a]]}", {("bad-value", 3, 30)}),
        ("{at: 5s, partition: [[a], [a.0]]}", {("bad-event", 3, 30)}),
        ("{at: 5s, lnk: [a, r], loss: 1%}", {("bad-event", 3, 10)}),
        ("{at: 5s, node: a, link: [a, r], loss: 1%}", {("bad-event", 3, 10)}),
        ("{at: 5s, node: a, do: leave}, {at: 6s, node: a, do: crash}", {("event-count", 3, 40)}),
        ("{at: 9s, node: a, do: join}, {at: 10s, node: a, do: join}", {("event-count", 3, 39)}),
        ("{at: 5s, node: a, do: reconnect}", {("event-count", 3, 10)}),
        ("{at: 9s, node: a, do: join}, {at: 5s, node: a, do: disconnect}", {("event-count", 3, 39)}),
    ],
)
def test_yaml_events(event: str, expected: set[tuple[str, int, int]]) -> None:
    text = f"services: {{a: {{replicas: 2}}, b: , c: }}\nbridges: [r]\nevents: [{event}]\n"
    links = "{from: a, to: r, latency: 1ms, rate: 1Mbps}, {from: c, to: r, latency: 1ms, rate: 1Mbps, one-way: true}"
    assert errors(text + f"links: [{links}]") == expected


@pytest.mark.parametrize(
    "event",
    [
        "{at: 5s, node: a, do: crash}, {at: 3s, node: b, do: crash}",
        "{at: 9s, node: a, do: join}, {at: 10s, node: a, do: leave}",
        "{at: 5s, node: a, do: crash, rejoin: 5s}, {at: 11s, node: a, do: leave}",
        "{at: 5s, node: a.1, do: disconnect}, {at: 6s, node: a, do: reconnect, count: 1}",
        "{at: 5s, link: [a.0, r], loss: 1%}",
        "{at: 5s, link: [r, a], state: down, for: 2s}",
        "{at: 5s, link: [a, b], state: up, latency: 1ms, rate: 1Mbps}, {at: 6s, link: [a, b], loss: 1%}",
        "{every: 1s, until: 10s, node: '*', do: crash, count: 1, rejoin: 0.5s}",
        "{at: 10s, node: b, do: crash}, {at: 1s, node: b, do: crash, rejoin: 9s}",
        "{every: 0.3s, from: 0.1s, until: 60s, node: b, do: crash, rejoin: 0.3s}",
        "{at: 6s, link: [a, b], loss: 1%}, {at: 5s, link: [a, b], state: up, latency: 1ms, rate: 1Mbps}",
        "{at: 5s, link: [a, b], state: up, latency: 1ms, rate: 1Mbps}, {at: 6s, link: [a.0, b], loss: 1%}",
        "{at: 1s, node: a.0, do: disconnect, for: 10s}, {at: 5s, node: a.0, do: crash, rejoin: 1s}",
        "{every: 5s, until: 20s, node: a, do: crash, count: 1, rejoin: 7s}, {at: 21s, node: a, do: leave}",
        "{at: 1s, node: '*', do: crash, count: 1}, {at: 9s, node: b, do: join}",
    ],
)
def test_events_that_are_fine(event: str) -> None:
    text = f"services: {{a: {{replicas: 2}}, b: }}\nbridges: [r]\nevents: [{event}]\n"
    assert findings(text + "links: [{from: a, to: r, latency: 1ms, rate: 1Mbps}]") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<experiment boot='k'>\n<services>", {("syntax", 2, 11)}),
        ("", {("empty", 1, 1)}),
        ("hello", {("syntax", 1, 1)}),
        ("<topology/>", {("root", 1, 1)}),
        (xml() + "<experiment/>", {("syntax", 6, 33)}),
        (xml("<service name='a&lol;' image='i'/>"), {("syntax", 2, 11)}),
        ("<!DOCTYPE x [<!ENTITY a 'b'>]><experiment/>", {("doctype", 1, 1)}),
        ("<!DOCTYPE x SYSTEM 'file:///etc/passwd'><experiment/>", {("doctype", 1, 1)}),
        ("<a>" * 20, {("too-deep", 1, 25)}),
        ("<?xml version='1.0' encoding='utf-7'?><a/>", {("encoding", 1, 1)}),
        (xml("<service name='c'/>"), {("missing", 2, 11)}),
        (xml("<service name='c' image='i' imgae='x'/>"), {("unknown-attribute", 2, 39)}),
        (xml("<service name='c' image='i'\n  replicas='0'/>"), {("bad-value", 3, 13)}),
        (xml("<service name='c' image='>' replicas='x'/>"), {("bad-value", 2, 49)}),
        (xml("<service name='a' image='i'/>"), {("duplicate-name", 3, 16)}),
        (xml("<service name='c' image='i' share='yes'/>"), {("bad-value", 2, 46)}),
        (xml("<service name='c' image='i' command='[oops'/>"), {("bad-value", 2, 48)}),
        (xml("<service name='c' image='i' activepaths=\"['zz']\"/>"), {("unknown-name", 2, 52)}),
        (xml("<srv/>"), {("unknown-element", 2, 11)}),
        (xml(bridges="<bridge/>"), {("missing", 4, 10)}),
        (xml(bridges="<bridge name='a'/>"), {("duplicate-name", 4, 10)}),
        (xml(links=GOOD.replace("'1Mbps'", "'1.5.5Mbps'", 1)), {("bad-value", 5, 54)}),
        (xml(links=GOOD.replace("'1'", "'-1'", 1)), {("bad-value", 5, 43)}),
        (xml(links=GOOD.replace("'s'", "'q'", 1)), {("unknown-name", 5, 31)}),
        (xml(links=GOOD.replace(" network='n'", "")), {("missing", 5, 8)}),
        (xml(links=GOOD.replace(" upload='1Mbps'", "")), {("missing", 5, 8)}),
        (xml(links=GOOD + GOOD.replace("dest", "destination")), {("missing", 5, 91), ("unknown-attribute", 5, 108)}),
        (xml(dynamic="<schedule name='zz' time='1' action='join'/>"), {("unknown-name", 6, 26)}),
        (xml(dynamic="<schedule name='a' time='x' action='join'/>"), {("bad-value", 6, 35)}),
        (xml(dynamic="<schedule name='a' action='join'/>"), {("missing", 6, 10)}),
        (xml(dynamic="<schedule name='a' time='1' action='fly'/>"), {("bad-value", 6, 46)}),
        (xml(dynamic="<schedule name='s' time='1' action='fly'/>"), {("bad-value", 6, 46)}),
        (xml(dynamic="<schedule name='a' time='1' action='join' amount='0'/>"), {("bad-value", 6, 60)}),
        (xml(dynamic="<schedule time='1'/>"), {("missing", 6, 10)}),
        (xml(dynamic="<schedule origin='a' dest='b' time='1' drop='0.5'/>"), {("unknown-link", 6, 10)}),
        (
            xml(
                dynamic="<schedule name='a' time='1' action='leave'/><schedule name='a' time='2' action='join'/>"
                "<schedule name='b' time='1' action='leave'/><schedule name='b' time='2' action='leave'/>"
            ),
            {("event-count", 6, 141)},
        ),
    ],
)
def test_xml(text: str, expected: set[tuple[str, int, int]]) -> None:
    assert errors(text, Form.XML) == expected


def test_every_problem_of_a_file_is_reported_at_once() -> None:
    codes = [
        each.code for each in findings("nam: x\nservices: {a: {replicas: 0}, b.1: }\nlinks: [{from: a, to: q}, 3]\n")
    ]
    assert codes == ["unknown-key", "bad-value", "bad-name", "unknown-name", "bad-shape"]


def test_messages_use_the_words_of_the_form() -> None:
    in_xml = findings(xml(links=GOOD.replace("'1Mbps'", "'0Mbps'", 1)), Form.XML)
    in_yaml = findings("services: {a: , b: }\nlinks: [{from: a, to: b, latency: 1ms, up: 0Mbps, down: 1Mbps}]")
    assert [each.message.split(":")[0] for each in (*in_xml, *in_yaml)] == ["upload", "up"]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("services: {a: {replcas: 3}}", "did you mean `replicas`?"),
        ("services: {site-a: }\nbridges: [r]\nlinks: [{from: site-b, to: r, latency: 1ms, rate: 1kbps}]", "`site-a`"),
        ("services: {a: , b: }\nlinks: [{from: a, to: b, latency: 1ms, rate: 10mbps}]", "did you mean `10Mbps`?"),
        ("services: {a: {reuse: off}}", "write `false`"),
    ],
)
def test_hints_say_how_to_put_it_right(text: str, hint: str) -> None:
    assert hint in findings(text)[0].hint


def test_yaml_1_1_traps_in_names_are_kept_as_written_and_warned_of() -> None:
    loaded = load_bytes(b"services: {no: , 012: , 'yes': }\nbridges: [0x1f]", Form.YAML, "f")
    assert loaded.topology is not None
    assert [service.name for service in loaded.topology.services] == ["no", "012", "yes"]
    assert [(each.code, each.where.column) for each in loaded.findings] == [
        ("yaml-trap", 12),
        ("yaml-trap", 18),
        ("yaml-trap", 11),
    ]


def test_an_alias_bomb_is_refused_before_it_explodes() -> None:
    lines = ["x0: &x0 [a, a, a, a, a, a, a, a, a, a]"]
    lines += [f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert ("too-large", 7, 40) in {(code, *place) for code, *place in errors("\n".join(lines))}


def test_deep_nesting_is_refused() -> None:
    assert {code for code, *_ in errors("[" * 100_000)} == {"too-deep"}
    assert {code for code, *_ in errors("- " * 5000)} == {"too-deep"}


def test_positions_count_characters_not_bytes() -> None:
    assert errors("services: {zürich-😀: {replicas: 0}}") == {("bad-value", 1, 33)}
    long_line = "services: {" + ", ".join(f"ü{n}: " for n in range(3000)) + ", a: {replicas: 0}}"
    assert errors(long_line) == {("bad-value", 1, long_line.index("0}}") + 1)}
    assert errors(xml("<service name='ü' image='ü' replicas='0'/>"), Form.XML) == {("bad-value", 2, 49)}


@pytest.mark.parametrize("form", Form)
def test_bytes_that_are_no_text(form: Form) -> None:
    assert {code for code, *_ in errors(bytes(range(256)) * 40, form)} == {"binary"}
    assert errors(b"a: b\nc: \xe9\n", form) == {("encoding", 2, 4)}


def test_other_encodings_that_say_so_are_read() -> None:
    text = xml(links=GOOD)
    for encoding in ("utf-16", "utf-8-sig", "latin-1"):
        declared = "<?xml version='1.0' encoding='ISO-8859-1'?>" if encoding == "latin-1" else ""
        assert not findings((declared + text).encode(encoding), Form.XML)


def test_a_huge_file_is_refused_without_reading_it_all(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(100 * 2**20)
    assert [each.code for each in load(path).findings] == ["too-large"]
    assert MAX_FILE_BYTES < 100 * 2**20


def test_links_that_multiply_are_refused() -> None:
    text = (
        "services: {a: {replicas: 40000}, b: {replicas: 40000}}\nlinks: [{from: a, to: b, latency: 1ms, rate: 1kbps}]"
    )
    assert {code for code, *_ in errors(text)} == {"too-many-links"}


def test_links_that_events_create_count_too() -> None:
    event = "{at: 1s, link: [a, b], state: up, latency: 1ms, rate: 1Gbps}"
    text = f"services: {{a: {{replicas: 9000}}, b: {{replicas: 9000}}}}\nevents: [{event}]"
    assert {code for code, *_ in errors(text)} == {"too-many-links"}


def test_a_rejoin_that_can_never_happen() -> None:
    text = "services: {a: {reuse: false}}\nevents: [{at: 1s, node: a, do: crash, rejoin: 2s}]"
    assert errors(text) == {("bad-event", 2, 39)}


def test_a_flood_of_one_kind_does_not_hide_another() -> None:
    loaded = load_bytes(xml(links=GOOD.replace(" download='1Mbps'", "") * 1500 + "<l/>").encode(), Form.XML, "f")
    codes = [each.code for each in loaded.findings]
    assert codes.count("kollaps-one-way") == 1000
    assert "unknown-element" in codes
    assert codes[-1] == "many-more"


def test_require_raises_with_all_findings() -> None:
    with pytest.raises(InvalidInput) as refused:
        load_bytes(b"services: {a: {replicas: 0}}\nx: y", Form.YAML, "f").require()
    assert len(refused.value.findings) == 2
    assert refused.value.exit_code == 3


@pytest.mark.parametrize("name", ["none.yaml", "topology.txt", "folder.xml"])
def test_what_is_no_topology_file_is_a_usage_problem(tmp_path: Path, name: str) -> None:
    if name.startswith("folder"):
        (tmp_path / name).mkdir()
    with pytest.raises(UsageProblem):
        load(tmp_path / name)


VALID_FOR_US = {
    "config_tag", "underscore", "supervisor_false", "bw_decimal", "bw_bps", "bw_Tbps", "latency_ms_suffix",
    "drop_badstr", "two_networks", "empty_links", "upload_only", "share_true_one", "share_true_both",
    "share_false_rep3x2", "dyn_time_nan", "dyn_disc1_reconn1", "dyn_disc2_reconn1", "dyn_no_join_leave",
    "dyn_replicas_overridden", "dyn_reuse_false", "dyn_reuse_true", "dyn_order_unsorted",
}  # fmt: skip


@needs_reference
def test_the_probes_that_kollaps_was_tried_with() -> None:
    """Bad values are errors here, also where Kollaps takes them for 0 or crashes; good ones keep their meaning."""
    cases = json.loads((REFERENCE / "parser_probe_cases.json").read_text())
    valid = {name for name, text in cases.items() if load_bytes(text.encode(), Form.XML, name).topology is not None}
    assert valid == VALID_FOR_US
    replicas = {
        name: [service.replicas for service in load_bytes(cases[name].encode(), Form.XML, name).require().services]
        for name in ("dyn_reuse_false", "dyn_reuse_true", "dyn_replicas_overridden", "dyn_disc2_reconn1")
    }
    assert replicas == {
        "dyn_reuse_false": [4, 1],
        "dyn_reuse_true": [2, 1],
        "dyn_replicas_overridden": [2, 1],
        "dyn_disc2_reconn1": [2, 1],
    }


def test_stray_text_between_elements_is_a_warning_with_its_place() -> None:
    """Kollaps' own files have some, such as a `>` too many."""
    (finding,) = findings(xml(links=GOOD + ">"), Form.XML)
    assert (finding.code, finding.severity, finding.where[0]) == ("unexpected-text", Severity.WARNING, 5)
