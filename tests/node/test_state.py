"""What algorithms and sharings remember: kept with snapshots, and restored as if nothing had happened."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.catalogue.algorithm_facts import AlgorithmFacts
from testbed.catalogue.algorithms import ALGORITHMS
from testbed.catalogue.sharings import SHARINGS
from testbed.journal import CannotWrite
from testbed.node.algorithm import Algorithm
from testbed.node.algorithms.parameter_server import ParameterServer
from testbed.node.choose import choose_algorithm, choose_sharing
from testbed.node.messages import Message
from testbed.node.sharing.topk import TopK
from testbed.node.snapshots import newest_snapshot, save_snapshot
from testbed.node.state import (
    MOST_BYTES,
    State,
    UnusableState,
    checked,
    from_bytes,
    to_bytes,
    vector_in,
    whole_numbers_in,
)
from testbed.node.streams import Streams
from testbed.records import Failure
from tests.node.small_world import Outcome, World, ring
from tests.node.vectors import vector

MODEL = b"model"
ROUNDS, SAVED = 7, 3


@dataclass
class _Age:
    rounds: int


def _nested(depth: int) -> list[object]:
    return [_nested(depth - 1)] if depth else []


def kept(parts: Mapping[str, State]) -> dict[str, dict[str, object]]:
    return from_bytes(to_bytes(parts, MODEL), MODEL)


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**64 - 1)
        | st.floats(allow_nan=False)
        | st.text(max_size=9)
        | st.binary(max_size=9)
        | st.lists(st.integers(0, 9))
        | st.dictionaries(st.text(max_size=3), st.integers(0, 9)),
        max_size=5,
    ),
    st.sampled_from(["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1", ">f4", ">i8"]),
    st.lists(st.integers(0, 4), max_size=3),
)
def test_a_state_is_the_same_again(values: dict[str, Any], dtype: str, shape: list[int]) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    found = kept({"one": {**values, "array": array}, "two": {}})
    assert found["two"] == {}
    restored = found["one"].pop("array")
    values.pop("array", None)
    assert found["one"] == values
    assert isinstance(restored, np.ndarray)
    assert (restored.shape, restored.dtype) == (array.shape, array.dtype.newbyteorder("="))
    assert np.array_equal(restored, array)
    assert restored.flags.writeable


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (object(), "neither an array nor a plain value"),
        (np.array([object()]), "an array of object, which cannot be kept"),
        (np.array(["text"]), "which cannot be kept"),
        (2**70, "neither an array nor a plain value"),
        ({1, 2}, r"`value` is set, neither an array nor a plain value: save numbers, texts"),
        ((1, 2), "`value` is tuple"),
        (datetime(2026, 1, 1), "`value` is datetime"),
        (_Age(3), "`value` is _Age"),
        (np.float32(3), "`value` is float32"),
        (Counter("a"), "`value` is Counter"),
        ([0, {"a": [None, {2}]}], r"`value`\[1\]\['a'\]\[1\] is set"),
        ([np.zeros(3)], r"`value`\[0\] is ndarray, .*every array by its own name"),
        ({"a": {3: 1}}, r"`value`\['a'\] has the key 3, which is int: names and keys are texts, use str"),
        (["\ud800"], r"`value`\[0\] is a text with half a surrogate pair"),
        (_nested(100), "is more than 64 levels deep"),
    ],
)
def test_what_cannot_be_kept_is_told(value: object, words: str) -> None:
    with pytest.raises(UnusableState, match=words):
        to_bytes({"one": {"value": value}}, MODEL)


def test_names_in_a_state_are_texts() -> None:
    with pytest.raises(UnusableState, match="the name 3 is int: names and keys are texts"):
        to_bytes({"one": {3: 1}}, MODEL)  # type: ignore[dict-item]
    with pytest.raises(UnusableState, match="the name 3 is int"):
        to_bytes({"one": {3: np.zeros(3)}}, MODEL)  # type: ignore[dict-item]
    with pytest.raises(UnusableState, match=r"`state\(\)` must return a dict of names and values, not NoneType"):
        checked(None)
    deepest = {"value": _nested(60)}
    assert kept({"one": deepest})["one"] == deepest


def test_what_is_kept_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds of writing are those of reading."""
    size = len(to_bytes({"one": {"value": np.zeros(200)}}, MODEL))
    monkeypatch.setattr("testbed.node.state.MOST_BYTES", size - 1)
    with pytest.raises(UnusableState, match=f"the state of one takes {size} bytes, {size - 1} can be kept"):
        to_bytes({"one": {"value": np.zeros(200)}}, MODEL)
    monkeypatch.setattr("testbed.node.state._MOST_HEADER", 100)
    with pytest.raises(UnusableState, match=r"plain values of one take .* bytes, 100 can be kept: use arrays"):
        to_bytes({"one": {"value": "a" * 100}}, MODEL)


def test_a_state_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_BYTES == 1 << 31
    monkeypatch.setattr("testbed.node.state.MOST_BYTES", 1000)
    to_bytes({"one": {"value": np.zeros(200, np.float32)}}, MODEL)
    with pytest.raises(UnusableState, match="bytes, 1000 can be kept"):
        to_bytes({"one": {"value": np.zeros(250, np.float32)}}, MODEL)


WHOLE = to_bytes({"one": {"age": 3, "values": np.arange(5.0)}}, MODEL)


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255), st.booleans())
def test_a_damaged_state_is_refused(place: int, byte: int, cut: bool) -> None:
    damaged = WHOLE[:place] if cut else WHOLE[:place] + bytes([byte]) + WHOLE[place + 1 :]
    if damaged != WHOLE:
        with pytest.raises(UnusableState):
            from_bytes(damaged, MODEL)
    with pytest.raises(UnusableState, match="another model"):
        from_bytes(WHOLE, MODEL + b"2")


def test_values_of_another_kind_are_refused() -> None:
    for wrong in (None, [1.0], np.zeros(3, np.float64), np.zeros(4, np.float32), np.zeros((3, 1), np.float32)):
        with pytest.raises(UnusableState, match="`change` is no vector of 3 float32"):
            vector_in({"change": wrong}, "change", 3)
    for numbers in (None, 3, [1, -1], [True], ["1"]):
        with pytest.raises(UnusableState, match="`steps` is no list of whole numbers"):
            whole_numbers_in({"steps": numbers}, "steps")
    with pytest.raises(UnusableState, match="`version` is no whole number: -1"):
        ParameterServer().restore({"version": -1, "ranks": [], "steps": []})


def wire(message: Message) -> list[bytes]:
    return [frame if isinstance(frame, bytes) else frame.tobytes() for frame in message.frames()]


@pytest.mark.parametrize("name", SHARINGS)
def test_a_restored_sharing_says_the_same_next(name: str) -> None:
    model, streams = vector(400), Streams(1, "a")
    sharing = choose_sharing(name, {}, streams.of("compression"))
    sharing.begin(model)
    for round_ in range(3):
        sharing.trained(vector(400, round_ + 1))
        sharing.encode(model, round_)
    found = kept({"sharing": sharing.state(), "streams": streams.state()})
    later = Streams(1, "a")
    later.restore(found["streams"])
    fresh = choose_sharing(name, {}, later.of("compression"))
    fresh.begin(model)
    fresh.restore(found["sharing"])
    for each in (sharing, fresh):
        each.trained(vector(400, 9))
    assert wire(fresh.encode(model, 3)) == wire(sharing.encode(model, 3))
    assert wire(fresh.encode(model, 4)) == wire(sharing.encode(model, 4))


AT_ONCE = {"latency_s": lambda _sender, _to: 0.0, "rate_bps": inf}
"""Nothing is under way when a snapshot is made."""
CASES: dict[str, dict[str, Any]] = {
    "dpsgd": {},
    "divshare": {"graph": None, **AT_ONCE},
    "mosaic": {"graph": None},
    "shatter": {"graph": None},
    "epidemic": {"graph": None},
    "epidemic-local": {"algorithm": {"name": "epidemic", "mode": "local"}, "graph": None},
    "swift": {"steps": 2},
    "swift-random": {"graph": None, "latency_s": lambda _sender, _to: 0.0, "rate_bps": 1e30},
    "adpsgd": AT_ONCE,
    "gossip": AT_ONCE,
    "adpsgd-pushpull": {"graph": None, "lost": lambda *_: True},  # a snapshot is made right after models are sent
    "fedavg": {"algorithm": {"name": "fedavg", "participation": 0.5}, "server": True, "graph": None},
    "parameter-server": {"server": True, "graph": None},
}


def _facts_of(case: str) -> AlgorithmFacts:
    algorithm: Mapping[str, str] = CASES[case].get("algorithm", {"name": case})
    return ALGORITHMS[algorithm["name"]]


def sent(world: World) -> tuple[Outcome, list[tuple[int, int, list[bytes]]]]:
    """All messages with a payload that begin with the round after the snapshots."""
    messages: list[tuple[int, int, list[bytes]]] = []

    def note(sender: int, to: int, message: Message) -> None:
        if message.payload and message.round >= SAVED:
            messages.append((sender, to, wire(message)))

    world.before_shipping = note
    return world.run(), sorted(messages)


@pytest.mark.parametrize(
    ("case", "sharing"),
    [(case, sharing) for case in CASES for sharing in SHARINGS if sharing in (_facts_of(case).sharings or SHARINGS)],
)
def test_nodes_that_go_on_from_snapshots_say_what_they_would_have_said(case: str, sharing: str, tmp_path: Path) -> None:
    """Noise depends on how often a node has trained; a client that was not asked has done so less often."""
    chosen = {"algorithm": {"name": case}, "graph": ring(6), **CASES[case]}

    def world(rounds: int, **more: Any) -> World:
        kept = {"snapshots": {"every": 1}, "sharing": sharing}
        return World(6, rounds=rounds, dimension=40, noise=0.0, experiment=kept, **chosen, **more)

    _, expected = sent(world(ROUNDS))
    sent(world(SAVED, folders=tmp_path))
    outcome, found = sent(world(ROUNDS, folders=tmp_path, goes_on=SAVED))
    assert expected
    assert found == expected
    assert not [event for rank in range(6) for event in outcome.events(rank)]
    if sharing != "topk":
        return
    for path in tmp_path.rglob("*.state"):
        path.unlink()
    assert sent(world(ROUNDS, folders=tmp_path, goes_on=SAVED))[1] != expected, "else there would be nothing to keep"


def test_every_algorithm_goes_on() -> None:
    """Snapshots of nodes that take turns are of different rounds: their own tests take nodes away one at a time."""
    tried = {str(case.get("algorithm", {"name": name})["name"]) for name, case in CASES.items()}
    assert tried | {"teleportation", "plexus"} == set(ALGORITHMS)


def going_on(folder: Path, spoil: Callable[[Path], object]) -> Outcome:
    """Two rounds from the snapshots of three, whose states are spoilt."""

    def world(rounds: int, goes_on: int) -> Outcome:
        settings = {"snapshots": {"every": 1}, "sharing": "topk"}
        return World(
            4, rounds=rounds, graph=ring(4), dimension=40, folders=folder, goes_on=goes_on, experiment=settings
        ).run()

    world(3, 0)
    for path in sorted(folder.rglob("*.state")):
        spoil(path)
    return world(5, 3)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "round-000003.state: its checksum is wrong"),
        (lambda path: path.write_bytes(b"junk"), "round-000003.state: it does not begin as a state does"),
        (lambda path: path.unlink(), "the snapshot of round 3 holds a model without a state"),
    ],
)
def test_a_node_without_its_state_says_so_and_goes_on(spoil: Any, words: str, tmp_path: Path) -> None:
    """The last one is a snapshot of an earlier version."""
    outcome = going_on(tmp_path, spoil)
    for rank in range(4):
        assert [(each.what, each.detail) for each in outcome.events(rank)] == [
            ("state-lost", f"{words}; the node goes on with its model alone")
        ]
        assert outcome.end(rank).reason == "finished"


def test_a_state_of_something_else_is_lost(tmp_path: Path) -> None:
    outcome = going_on(tmp_path, _swap)
    assert {each.detail for each in outcome.events(0)} == {
        "`change` is no vector of 40 float32; the node goes on with its model alone"
    }


def _swap(path: Path) -> None:
    model = path.with_suffix(".f32").read_bytes()
    path.write_bytes(to_bytes({"sharing": {"change": 3}}, model))


def test_without_a_state_there_is_no_file(tmp_path: Path) -> None:
    World(3, rounds=2, graph=ring(3), folders=tmp_path, experiment={"snapshots": {"every": 1}}).run()
    assert sorted(path.name for path in tmp_path.rglob("round-*")) == ["round-000002.f32"] * 3


def test_the_newest_is_kept_with_its_state(tmp_path: Path) -> None:
    model = vector(8)
    for round_ in (1, 2):
        save_snapshot(tmp_path / "snapshots", round_, model, {"sharing": {"age": round_}})
    assert sorted(path.name for path in (tmp_path / "snapshots").iterdir()) == [
        "round-000002.f32",
        "round-000002.state",
    ]
    found = newest_snapshot(tmp_path / "snapshots", 8)
    assert found is not None
    assert (found.rounds, found.state, found.problem) == (2, {"sharing": {"age": 2}}, "")
    assert np.array_equal(found.vector, model)
    save_snapshot(tmp_path / "snapshots", 3, model)
    assert [path.name for path in (tmp_path / "snapshots").iterdir()] == ["round-000003.f32"]
    (tmp_path / "snapshots" / "round-000003.f32").write_bytes(b"short")
    assert newest_snapshot(tmp_path / "snapshots", 8) is None
    (tmp_path / "file").touch()
    with pytest.raises(CannotWrite):
        save_snapshot(tmp_path / "file", 1, model)


@pytest.mark.parametrize("ending", [".f32", ".state"])
def test_a_pipe_in_place_of_a_file_is_not_read(ending: str, tmp_path: Path) -> None:
    save_snapshot(tmp_path, 1, vector(8), {"sharing": {"age": 1}})
    pipe = tmp_path / f"round-000001{ending}"
    pipe.unlink()
    os.mkfifo(pipe)
    found = newest_snapshot(tmp_path, 8)
    if ending == ".f32":
        assert found is None
    else:
        assert found is not None
        assert (found.state, found.problem) == ({}, "round-000001.state: it is not a file")


def test_a_state_is_not_read_beyond_its_bound(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    save_snapshot(tmp_path, 1, vector(8), {"sharing": {"age": np.zeros(200)}})
    monkeypatch.setattr("testbed.node.snapshots.MOST_BYTES", 1000)
    found = newest_snapshot(tmp_path, 8)
    assert found is not None
    assert found.problem == "round-000001.state: it has more than 0 MiB"


@pytest.mark.parametrize(
    "name", ["round-000002.f32", "round-000002.state", "round-000001.state", "round-000002.f32.part"]
)
def test_a_folder_in_place_of_a_file_is_told(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(CannotWrite, match=f"cannot write .*{name}"):
        save_snapshot(tmp_path, 2, vector(8), {"sharing": {"age": 1}})


def test_a_pipe_in_place_of_an_unfinished_file_is_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "round-000002.f32.part")
    save_snapshot(tmp_path, 2, vector(8))
    assert [path.name for path in tmp_path.iterdir()] == ["round-000002.f32"]


def test_a_stream_goes_on_where_it_was() -> None:
    streams = Streams(1, "a")
    used, unused = streams.of("used"), streams.of("unused")
    used.random()
    used.gauss()
    state = streams.state()
    assert set(state) == {"used"}
    later = Streams(1, "a")
    later.restore(kept({"streams": state})["streams"])
    assert [later.of("used").gauss() for _ in range(1)] == [used.gauss()]
    assert later.of("unused").random() == unused.random()
    assert later.of("used").random() == Streams(1, "a").of("used").random(), "asked for again, it begins again"
    for wrong in (None, [], [1, 2], ["a"] * 626, [0] * 625):
        with pytest.raises(UnusableState, match="the random stream `used` cannot go on"):
            later.restore({"used": wrong})


def test_a_stream_that_is_made_anew_every_round_is_not_kept() -> None:
    streams = Streams(1, "a")
    for _ in range(3):
        streams.of("mix").random()
    assert streams.state() == {}


OWN = """\
from testbed.node.algorithms.dpsgd import DPSGD


class Counting(DPSGD):
    rounds = 0

    def state(self):
        self.rounds += 1
        return {"rounds": self.rounds}

    def restore(self, state):
        self.rounds = state["{KEY}"]


class Odd(DPSGD):
    def state(self):
        return {"what": object()}
"""


SUMS = """\
import numpy as np

from testbed.node.sharing.base import Sharing


class Sums(Sharing):
    def begin(self, model):
        self.total = np.zeros_like(model)

    def trained(self, change):
        self.total += change

    def state(self):
        return {"total": self.total}
"""


def test_training_tells_the_sharing_what_it_changed(tmp_path: Path) -> None:
    """A node alone starts from zero, and nothing else changes its model."""
    (tmp_path / "own.py").write_text(SUMS)
    settings = {"snapshots": {"every": 1}, "sharing": f"{tmp_path / 'own.py'}:Sums"}
    outcome = World(1, rounds=3, graph=[[]], folders=tmp_path, experiment=settings).run()
    found = newest_snapshot(tmp_path / "0" / "snapshots", 8)
    assert found is not None
    assert outcome.models[0].any()
    np.testing.assert_allclose(vector_in(found.state["sharing"], "total", 8), outcome.models[0], atol=1e-6)


def own(folder: Path, name: str, key: str = "rounds") -> str:
    folder.mkdir(exist_ok=True)
    (folder / "own.py").write_text(OWN.replace("{KEY}", key))
    return f"{folder / 'own.py'}:{name}"


def test_own_code_is_restored_and_told_where_it_fails(tmp_path: Path) -> None:
    def world(rounds: int, goes_on: int, name: str) -> Outcome:
        settings = {"snapshots": {"every": 1}}
        chosen = {"name": name}
        return World(
            2, rounds=rounds, graph=ring(2), folders=tmp_path, goes_on=goes_on, algorithm=chosen, experiment=settings
        ).run()

    world(2, 0, own(tmp_path / "one", "Counting"))
    world(4, 2, own(tmp_path / "one", "Counting"))
    found = newest_snapshot(tmp_path / "0" / "snapshots", 8)
    assert found is not None
    assert found.state["algorithm"] == {"rounds": 4}
    failure = world(6, 4, own(tmp_path / "two", "Counting", "wrong")).end(0).failure
    assert failure is not None
    assert (failure.message, failure.file, failure.line) == ("'wrong' (KeyError)", "own.py", 12)
    failure = world(6, 0, own(tmp_path / "three", "Odd")).end(0).failure
    assert failure is not None
    assert "neither an array nor a plain value" in failure.message


def test_a_state_that_cannot_be_kept_is_blamed_on_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "way.py").write_text(
        "from testbed.node.sharing.base import Sharing\n\n\n"
        "class Odd(Sharing):\n    def state(self):\n        return {'what': {1, 2}}\n\n\n"
        "class Broken(Sharing):\n    def state(self):\n        return {'what': self.no_such}\n"
    )

    def failure(**more: Any) -> Failure:
        settings = {"snapshots": {"every": 1}, **more.pop("experiment", {})}
        found = World(2, rounds=3, graph=ring(2), folders=tmp_path, experiment=settings, **more).run().end(0).failure
        assert found is not None
        return found

    algorithm = own(tmp_path / "one", "Counting")
    for chosen in ({}, {"algorithm": {"name": algorithm}}):
        found = failure(experiment={"sharing": f"{tmp_path / 'way.py'}:Odd"}, **chosen)
        assert (found.file, found.line) == ("way.py", None)
        assert found.message.startswith("`what` is set, neither an array nor a plain value")
        found = failure(experiment={"sharing": f"{tmp_path / 'way.py'}:Broken"}, **chosen)
        assert (found.file, found.line) == ("way.py", 11)
    found = failure(algorithm={"name": own(tmp_path / "two", "Odd")})
    assert (found.file, found.line) == ("own.py", None)
    assert found.message.startswith("`what` is object, neither")


def test_who_overrides_nothing_remembers_nothing() -> None:
    assert Algorithm().state() == {}
    assert choose_algorithm("dpsgd", {}).state() == {}
    dense = TopK(Random(1), fraction=0.9)  # noqa: S311
    dense.begin(vector(8))
    dense.restore(dense.state())
    assert dense.state() == {}


def test_a_worker_given_up_before_the_snapshot_does_not_hold_the_others_up(tmp_path: Path) -> None:
    """The server waits for it once more, after the others have taken the steps of their lead."""
    chosen: dict[str, Any] = {
        "algorithm": {"name": "parameter-server", "mode": "async", "max_lead": 2},
        "server": True,
        "graph": None,
        "experiment": {"snapshots": {"every": 1}, "missing": {"after": "3s", "then": "skip"}},
        "lost": lambda sender, _to, _message: sender == 1,
    }
    World(3, rounds=6, folders=tmp_path, **chosen).run()
    found = newest_snapshot(tmp_path / "0" / "snapshots", 8)
    assert found is not None
    assert found.state["algorithm"]["ranks"] == [2, 3], "the first was given up"
    outcome = World(3, rounds=10, folders=tmp_path, goes_on=6, **chosen).run()
    assert outcome.end(0).reason == "finished"
    (missing,) = outcome.events(0)
    assert "version 24: node1: skip" in missing.detail, "each of the others has taken three steps more"


def test_an_asynchronous_server_goes_on_with_its_version(tmp_path: Path) -> None:
    versions: list[int] = []

    def note(sender: int, _to: int, message: Message) -> None:
        if sender == 0 and "version" in message.fields:
            versions.append(int(message.fields["version"]))  # type: ignore[arg-type]

    chosen: dict[str, Any] = {
        "algorithm": {"name": "parameter-server", "mode": "async", "max_lead": 2},
        "server": True,
        "graph": None,
    }
    settings = {"snapshots": {"every": 1}}
    World(3, rounds=4, folders=tmp_path, experiment=settings, before_shipping=note, **chosen).run()
    assert (versions[0], max(versions)) == (0, 11)
    versions.clear()
    outcome = World(3, rounds=6, folders=tmp_path, goes_on=4, before_shipping=note, **chosen).run()
    assert (versions[0], max(versions)) == (12, 17)
    assert not [event for rank in range(4) for event in outcome.events(rank)]
