"""Whatever a file holds, loading it ends in a topology or in findings: never in an exception that is not ours."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from testbed.errors import InvalidInput
from testbed.topologies.load import Loaded, load_bytes
from testbed.topologies.source import Form
from testbed.topologies.write import write_text
from tests.examples import examples
from tests.reference import needs_reference, reference_files
from tests.topologies.documents import documents

TOKENS = [
    b"<", b">", b"/>", b'"', b"&", b"&amp;", b"&#0;", b"&#65;", b"<!--", b"-->", b"<![CDATA[", b"<?x?>", b"\0", b"\xff",
    b"{", b"}", b"[", b"]", b": ", b"- ", b"*a", b"&a ", b"!!python/object:os.system ", b"|\n", b"\t", b"\n", b"#",
    b"nan", b"inf", b"-1", b"1e309", b"9" * 50, b"join", b"leave", b"true", b"no", b"010", b"latency", b"replicas",
    "\u2028".encode(), "\U0001f600".encode(), b"name=", b"site.0", b"*", b"share", b"<<: ",
]  # fmt: skip

XML = b"""<experiment boot="kollaps:2.0"><config><x shortest_path="latency" pool_period="0.1"/></config>
<services><service name="d" image="i" supervisor="true" port="8088"/><service name="a" image="i" replicas="2"
command="['x']" activepaths="['b']"/><service name="b" image="i" share="true"/></services>
<bridges><bridge name="s"/></bridges>
<links><link origin="a" dest="s" latency="1" upload="1Mbps" download="2Mbps" jitter="0.1" drop="0.1" network="n"/>
<link origin="s" dest="b" latency="1" upload="1Mbps" network="n"/></links>
<dynamic><schedule name="a" time="0" action="join" amount="2"/><schedule origin="a" dest="s" time="1" drop="0.5"/>
<schedule name="s" time="2" action="leave"/></dynamic></experiment>"""
YAML = b"""name: two
defaults: {latency: 1ms, queue: 250ms}
services:
  a: {replicas: 2, speed: 0.5}
  b:
bridges: [r]
links:
  - {from: a, to: r, up: 1Mbps, down: 2Mbps, shared: true}
  - {from: r, to: b, rate: 1Gbps, loss: 1%, back: {latency: 3ms}}
events:
  - {at: 1s, link: [a, r], loss: 2%}
  - {every: 5s, from: 1s, until: 9s, node: "a.*", do: crash, count: 1, rejoin: 1s}
  - {at: 2s, partition: [[a], [b]], for: 1s}
"""


def sound(loaded: Loaded) -> None:
    """What every answer has in common; a topology can also be used."""
    assert (loaded.topology is None) == any(finding.severity == "error" for finding in loaded.findings)
    for finding in loaded.findings:
        assert finding.where.line >= 1
        assert finding.where.column >= 1
        assert finding.message
        assert finding.code
        assert finding.message.isprintable(), "a terminal must not be driven by what a file holds"
    if loaded.topology is not None and len(loaded.topology.nodes) < 1000:
        write_text(loaded.topology, Form.YAML)
        try:
            write_text(loaded.topology, Form.XML)
        except InvalidInput as refused:
            assert refused.findings


@st.composite
def mutated(draw: st.DrawFn, original: bytes) -> bytes:
    """A valid file with a few pieces removed, doubled, swapped or replaced."""
    data = bytearray(original)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 12)))
        piece = draw(st.sampled_from([b"", bytes(data[start:end]) * 2, *TOKENS]) | st.binary(max_size=4))
        data[start:end] = piece
    return bytes(data)


@settings(max_examples=examples(166), deadline=None)
@given(mutated(XML))
@example(XML)
def test_mutated_xml(data: bytes) -> None:
    sound(load_bytes(data, Form.XML, "f.xml"))


@settings(max_examples=examples(166), deadline=None)
@given(mutated(YAML))
@example(YAML)
def test_mutated_yaml(data: bytes) -> None:
    sound(load_bytes(data, Form.YAML, "f.yaml"))


@settings(max_examples=examples(66), deadline=None)
@given(st.binary(max_size=200), st.sampled_from(Form))
def test_random_bytes(data: bytes, form: Form) -> None:
    sound(load_bytes(data, form, "f"))


@settings(max_examples=examples(66), deadline=None)
@given(st.text(max_size=200), st.sampled_from(Form))
def test_random_text(text: str, form: Form) -> None:
    sound(load_bytes(text.encode("utf-8", "replace"), form, "f"))


_junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=examples(100), deadline=None)
@given(documents(), st.data())
def test_a_document_with_junk_in_one_place(document: dict[str, Any], data: st.DataObject) -> None:
    """Wrong shapes in the right places: beyond what byte mutations reach."""
    holder: Any = document
    while isinstance(holder, dict | list) and holder:
        key = data.draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
        if not isinstance(holder[key], dict | list) or not holder[key] or data.draw(st.booleans()):
            holder[key] = data.draw(_junk)
            break
        holder = holder[key]
    sound(load_bytes(yaml.safe_dump(document).encode(), Form.YAML, "f.yaml"))


@needs_reference
def test_truncated_real_files() -> None:
    for path in reference_files():
        data = path.read_bytes()
        for length in range(0, len(data), max(1, len(data) // 40)):
            sound(load_bytes(data[:length], Form.XML, path.name))
