"""Every door takes any bytes: files, arguments and sockets alike end in an answer, or in an error that is ours.

Sound inputs are changed at random (bytes, words, lengths, pieces of each other), by a seed. CI gives every door a
moment; `scripts/soak fuzz` a hundred thousand inputs each.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pytest

from testbed.collect.run import collect_run
from testbed.collect.summary import summarise
from testbed.control.log import last_word
from testbed.engines.fabric.python_plane.frames import read_frame
from testbed.errors import TestbedError
from testbed.experiment.read import experiment_on, load_experiment, setting
from testbed.node.messages import MalformedMessage, Message, from_frames
from testbed.node.snapshots import newest_snapshot, save_snapshot
from testbed.node.state import to_bytes
from testbed.plan.files import read_plan, to_text
from testbed.plan.overlay_files import read_edges
from testbed.plan.overlay_graph import NoGraph
from testbed.protocol.message import ProtocolError
from testbed.records import Over
from testbed.rundir import RunDirectory
from testbed.runtimes.tracking.process_records import read_record, record_of
from testbed.topologies.graph_import import read_graph
from testbed.topologies.load import load_bytes
from testbed.topologies.source import Form
from testbed.units import (
    UnitError,
    parse_accuracy,
    parse_background_bps,
    parse_duration_s,
    parse_latency_ms,
    parse_loss,
    parse_rate_bps,
    parse_size_bytes,
)
from tests.collect.runs import text, write
from tests.collect.test_damage import JOURNAL
from tests.protocol.test_readers import READERS, packed
from tests.runtimes.sim_runs import plan_of, star
from tests.topologies.test_fuzz import TOKENS, XML, YAML

INPUTS = int(os.environ.get("TESTBED_TEST_FUZZ", "0"))
MOMENT_S = 1.0
SEED = int(os.environ.get("TESTBED_TEST_FUZZ_SEED", "1"))
WORDS = [
    *TOKENS,
    b"\xc3\x28",
    b"\xed\xa0\x80",
    b"1e39",
    b"1e308",
    b"-0",
    b"null",
    b"[" * 2000,
    b'{"a":' * 500,
    b"\xff" * 9,
]
EXPERIMENT = b"""topology: lan4
algorithm: {name: dpsgd}
data: {name: digits, partition: {kind: dirichlet, alpha: 0.5}}
model: {name: mlp, hidden: 32}
training: {lr: 0.1, batch: 8}
stop: {rounds: 3, time: 10s}
compute: {mode: paced, ms_per_step: auto, factors: [{nodes: "node.*", factor: 2}]}
overlay: {kind: regular, degree: 2}
missing: {after: 1s, then: skip}
"""
GRAPH = b'{"nodes": [{"id": 0, "name": "a"}, {"id": 1}], "links": [{"source": 0, "target": 1, "latency": "1ms"}]}'
GRAPHML = b"""<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="d" for="edge" attr.name="dist" attr.type="double"/>
<graph edgedefault="undirected"><node id="a"/><node id="b"/><edge source="a" target="b"><data key="d">3.5</data></edge>
</graph></graphml>"""
GML = b'graph [ node [ id 0 label "a" Latitude 1.5 Longitude 2.5 ] node [ id 1 label "b" ] edge [ source 0 target 1 ] ]'
UNITS = (
    parse_latency_ms, parse_duration_s, parse_rate_bps, parse_background_bps, parse_loss, parse_accuracy,
    parse_size_bytes,
)  # fmt: skip


@dataclass(frozen=True)
class Door:
    seeds: tuple[bytes, ...]
    enter: Callable[[bytes, Path], object]
    allowed: tuple[type[Exception], ...] = (TestbedError,)


def _in_file(name: str, read: Callable[[Path], object]) -> Callable[[bytes, Path], object]:
    def enter(data: bytes, folder: Path) -> object:
        path = folder / name
        path.write_bytes(data)
        return read(path)

    return enter


def _as_text(read: Callable[[str], object]) -> Callable[[bytes, Path], object]:
    """As an argument: bytes that are no UTF-8 come as lone surrogates."""
    return lambda data, _: read(os.fsdecode(data.replace(b"\0", b"")))


def _experiment(path: Path) -> None:
    loaded = load_experiment(path)
    with suppress(TestbedError):
        loaded.require()


def _set(words: str) -> None:
    with suppress(TestbedError):
        experiment_on("lan4", [setting(words)]).require()


def _units(words: str) -> None:
    for parse in UNITS:
        with suppress(UnitError):
            parse(words)


def _journal(data: bytes, folder: Path) -> None:
    run = RunDirectory(folder / "run")
    run.node("n.0").journal.write_bytes(data)
    summarise(collect_run(run), 0.5)


def _control_log(data: bytes, folder: Path) -> None:
    run = RunDirectory(folder / "run")
    run.events.write_bytes(data)
    last_word(run.events)
    collect_run(run)


STATE = to_bytes({"sharing": {"change": np.zeros(12, np.float32), "age": 3}}, bytes(48))
"""Beside a model of twelve zeros."""


def _summary(data: bytes, folder: Path) -> None:
    run = RunDirectory(folder / "run")
    (run.path / "summary.json").write_bytes(data)
    summarise(collect_run(run), 0.5)


def _record(data: bytes, folder: Path) -> None:
    run = RunDirectory(folder / "run")
    record_of(run).parent.mkdir(exist_ok=True)
    record_of(run).write_bytes(data)
    read_record(run)


def _snapshot(data: bytes, folder: Path) -> None:
    (folder / "snapshots" / "round-000002.state").write_bytes(data)
    found = newest_snapshot(folder / "snapshots", 12)
    assert found is not None, "the model beside it is whole"
    assert found.state or found.problem
    (folder / "snapshots" / "round-000003.f32").write_bytes(data)
    newest_snapshot(folder / "snapshots", 12)
    (folder / "snapshots" / "round-000003.f32").unlink()


def _message(data: bytes, _: Path) -> None:
    cut = len(data) // 2
    for frames in ([data], [data[:cut], data[cut:]]):
        with suppress(MalformedMessage):
            from_frames(frames)


def _edges(words: str) -> None:
    read_edges(words, {"a": 0, "b": 1, "2": 2}, "edges.txt")


def _frame_seeds() -> tuple[bytes, ...]:
    vnet = bytes(10)
    ip = bytes.fromhex("45000028000040004006000 0c6120001c6120002".replace(" ", ""))
    tcp = bytes.fromhex("0050005100000001000000015010ffff00000000")
    udp = bytes.fromhex("4500001c0000400040110000c6120001c61200021000100100080000")
    return vnet + ip + tcp, vnet + udp, bytes.fromhex("01012800d00514001000") + ip + tcp + bytes(3000)


def _doors() -> dict[str, Door]:
    plan = to_text(plan_of(star(3))).encode()
    sent = Message("model", 3, {"degree": 2, "list": [1, "a"]}, (np.zeros(3, np.float32),), (np.zeros(2, np.int16),))
    message = [bytes(each) for each in sent.frames()]
    doors = {
        "topology.xml": Door((XML,), lambda data, _: load_bytes(data, Form.XML, "x.xml")),
        "topology.yaml": Door((YAML,), lambda data, _: load_bytes(data, Form.YAML, "x.yaml")),
        "experiment.yaml": Door((EXPERIMENT,), _in_file("e.yaml", _experiment)),
        "plan.json": Door((plan,), _in_file("plan.json", read_plan)),
        "graph.json": Door((GRAPH,), _in_file("g.json", read_graph)),
        "graph.graphml": Door((GRAPHML,), _in_file("g.graphml", read_graph)),
        "graph.gml": Door((GML,), _in_file("g.gml", read_graph)),
        "edges.txt": Door((b"0 1\n1 2 {}\na: b\n",), _as_text(_edges), (NoGraph,)),
        "journal.jsonl": Door((JOURNAL,), _journal),
        "events.jsonl": Door((text([Over(3.0, "finished", 1, 0)]),), _control_log),
        "summary.json": Door((b'{"reason": "finished", "valid": true, "overloaded": [], "lateness": null}',), _summary),
        "processes.json": Door(
            (b'{"sockets": "/tmp/x", "processes": [{"name": "a", "pid": 1, "start_ticks": 2}]}',), _record
        ),
        "snapshot": Door((bytes(48), STATE), _snapshot),
        "--set": Door((b"training.lr=0.1", b"overlay.degree=4", b"model.hidden=3,4"), _as_text(_set)),
        "units": Door((b"10ms", b"1.5Gbps", b"3%", b"512MB", b"1h", b"0.5"), _as_text(_units)),
        "message": Door((b"".join(message), message[0]), _message),
        "frame": Door(_frame_seeds(), lambda data, _: read_frame(data, bytes([198, 18, 0, 1]), 1500)),
    }
    kinds = ("hello", "ready", "recorded", "left", "fork", "judge", "set-link", "halt")
    seeds = tuple(packed({b"type": kind.encode(), b"rank": 1, b"text": b"{}"}) for kind in kinds)
    for name, reader in READERS.items():
        doors[name] = Door(seeds, lambda data, _, reader=reader: reader.read(data), (ProtocolError,))  # type: ignore[misc]
    return doors


DOORS = _doors()


def changed(random: Random, seeds: tuple[bytes, ...]) -> bytes:
    data = bytearray(random.choice(seeds))
    for _ in range(random.choice((1, 1, 2, 4, 9))):
        at = random.randrange(len(data) + 1)
        upto = min(len(data), at + random.choice((0, 1, 1, 4, 30)))
        match random.randrange(7):
            case 0:
                data[at:upto] = random.randbytes(random.choice((1, 2, 8)))
            case 1:
                data[at:upto] = random.choice(WORDS)
            case 2:
                del data[at:upto]
            case 3:
                data[at:at] = data[upto : upto + random.choice((3, 40))]
            case 4:
                del data[at:]
            case 5 if at < len(data):
                data[at] ^= 1 << random.randrange(8)
            case _:
                other = random.choice(seeds)
                data[at:upto] = other[random.randrange(len(other) + 1) :][:50]
    return bytes(data)


def inputs(name: str, seeds: tuple[bytes, ...]) -> Iterator[bytes]:
    random = Random(f"{SEED} {name}")  # noqa: S311 - to be repeated
    until_s = time.monotonic() + MOMENT_S
    number = 0
    while number < INPUTS or (not INPUTS and time.monotonic() < until_s):
        number += 1
        yield changed(random, seeds)


@pytest.mark.parametrize("name", DOORS)
def test_nothing_passes_a_door_but_what_is_ours(name: str, tmp_path: Path) -> None:
    door = DOORS[name]
    write(tmp_path, {"n.0": JOURNAL}, None)
    (tmp_path / "snapshots").mkdir()
    save_snapshot(tmp_path / "snapshots", 2, np.zeros(12, np.float32))
    for number, data in enumerate(inputs(name, door.seeds)):
        try:
            door.enter(data, tmp_path)
        except door.allowed:
            continue
        except Exception as problem:
            raise AssertionError(f"input {number} of {name}: {data!r}") from problem


def test_the_fuzzer_finds_what_is_there_to_be_found(tmp_path: Path) -> None:
    def enter(data: bytes, _: Path) -> None:
        data.decode()

    def find() -> None:
        for data in inputs("itself", (YAML,)):
            enter(data, tmp_path)

    with pytest.raises(UnicodeDecodeError):
        find()
