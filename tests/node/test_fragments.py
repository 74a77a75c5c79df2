"""Fragments: how models are cut, what is refused, and the mean by parameter."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.catalogue.shares import fragments_of
from testbed.node.fragments import Fragmentation, partition, sender_and_part
from testbed.node.kinds import FRAGMENT
from testbed.node.messages import Message, Received, UnusableModel, from_frames
from tests.node.vectors import vector


def over_the_wire(message: Message) -> Message:
    return from_frames([frame if isinstance(frame, bytes) else frame.tobytes() for frame in message.frames()])


def received(sender: int, message: Message) -> Received:
    return Received(sender, over_the_wire(message))


def with_fields(message: Message, **fields: Any) -> Message:
    return Message(message.kind, message.round, {**message.fields, **fields}, message.payload)


@given(st.integers(1, 400), st.integers(1, 60), st.integers(0, 1 << 32))
def test_fragments_are_disjoint_and_complete_and_of_one_size(parameters: int, parts: int, seed: int) -> None:
    parts = min(parts, parameters)
    found = partition(seed, parameters, parts)
    assert len(found) == parts
    assert sorted(np.concatenate(found).tolist()) == list(range(parameters))
    sizes = [part.size for part in found]
    assert max(sizes) - min(sizes) <= 1
    assert all((np.diff(part) > 0).all() for part in found)


def test_models_are_cut_the_same_on_every_machine() -> None:
    """Raw bits of the generator, which every version of numpy gives alike."""
    assert [part.tolist() for part in partition(5, 7, 3)] == [[3, 4, 5], [2, 6], [0, 1]]
    digest = hashlib.sha256(b"".join(part.astype("<i8").tobytes() for part in partition(1, 5000, 10)))
    assert digest.hexdigest()[:16] == "4f12b11404723628"


def test_a_fragment_has_parameters_of_all_layers() -> None:
    """A tensor smaller than the number of parts is not all in one of them."""
    (first, *_) = partition(3, 10_000, 10)
    assert 60 < (first < 1000).sum() < 140
    assert len({int(np.flatnonzero([place in part for part in partition(3, 10_000, 10)])[0]) for place in range(8)}) > 3


@pytest.mark.parametrize(
    ("fraction", "parts"), [(1.0, 1), (0.9, 1), (0.5, 2), (0.35, 3), (0.15, 7), (0.1, 10), (0.06, 17), (0.001, 1000)]
)
def test_the_number_of_fragments_is_rounded(fraction: float, parts: int) -> None:
    """DivShare's published code cuts it off: 2, 6 and 16 for .35, .15 and .06."""
    assert fragments_of(fraction) == parts


def test_more_than_a_third_of_all_fractions_would_be_cut_off() -> None:
    fractions = [each / 1000 for each in range(1, 1001)]
    assert sum(fragments_of(fraction) != int(1 / fraction) for fraction in fractions) == 377


def test_there_are_no_more_fragments_than_parameters() -> None:
    assert Fragmentation(3, 10, 1).parts == 3
    assert [fragment.payload[0].size for fragment in Fragmentation(3, 10, 1).cut(vector(3), 0)] == [1, 1, 1]


@pytest.mark.parametrize("reseed", ["never", "round"])
def test_what_is_put_together_is_the_model(reseed: str) -> None:
    cutting, model = Fragmentation(101, 8, 1, reseed), vector(101)
    whole = np.zeros(101, np.float32)
    for number, fragment in enumerate(cutting.cut(model, 4)):
        places, values = cutting.decode(over_the_wire(fragment))
        whole[places] = values
        assert (fragment.kind, fragment.round, fragment.fields["part"]) == (FRAGMENT, 4, number)
        assert fragment.fields["parts"] == 8
    assert whole.tobytes() == model.tobytes()


def test_a_fragment_is_what_the_model_was() -> None:
    model = vector(10)
    (fragment,) = Fragmentation(10, 1, 1).cut(model, 0)
    before = model.copy()
    model += 1
    assert fragment.payload[0].tobytes() == before.tobytes()


def test_only_with_reseed_a_round_has_its_own_permutation() -> None:
    model = vector(50)
    for reseed, count in (("never", 1), ("round", 5)):
        cutting = Fragmentation(50, 5, 1, reseed)
        assert len({cutting.cut(model, round_)[0].payload[0].tobytes() for round_ in range(5)}) == count
        assert len({cutting.cut(model, round_)[0].fields["seed"] for round_ in range(5)}) == count
    with pytest.raises(ValueError, match="reseed is one of never, round, not 'always'"):
        Fragmentation(50, 5, 1, "always")


@pytest.mark.parametrize("reseed", ["never", "round"])
@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3), st.integers(0, 6)), max_size=20, unique=True),
    st.integers(0, 99),
)
def test_every_parameter_is_the_mean_of_all_that_have_it(
    reseed: str, chosen: list[tuple[int, int, int]], seed: int
) -> None:
    """Against the definition, one parameter after the other; the order of arrival counts for nothing."""
    cutting, model = Fragmentation(40, 7, seed, reseed), vector(40, seed)
    models = {(sender, round_): vector(40, 100 * sender + round_) for sender, round_, _ in chosen}
    came = [received(sender, cutting.cut(models[sender, round_], round_)[part]) for sender, round_, part in chosen]
    copies = [[float(value)] for value in model]
    for each in came:
        places, _ = cutting.decode(each.message)
        for place in places:
            copies[place].append(float(models[each.sender, each.round][place]))
    averaged = model.copy()
    cutting.average(averaged, came)
    np.testing.assert_allclose(averaged, [sum(each) / len(each) for each in copies], rtol=1e-6, atol=1e-7)
    kept = [place for place, each in enumerate(copies) if len(each) == 1]
    assert averaged[kept].tobytes() == model[kept].tobytes(), "bit for bit"
    again = model.copy()
    cutting.average(again, came[::-1])
    assert again.tobytes() == averaged.tobytes()


def spoilt(cutting: Fragmentation, **changes: Any) -> Message:
    fragment = cutting.cut(vector(30), 2)[1]
    if "values" in changes:
        return replace(fragment, payload=(changes["values"],))
    return with_fields(fragment, **changes)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"seed": 7}, "a fragment by the seed 7 arrived, models are cut by"),
        ({"seed": "x"}, "a fragment by the seed 'x' arrived"),
        ({"parts": 4}, "fragment 1 of 4 arrived, models have 3 here"),
        ({"part": 3}, "fragment 3 of 3 arrived, models have 3 here"),
        ({"part": -1}, "fragment -1 of 3 arrived"),
        ({"part": True}, "a fragment of the number True"),
        ({"part": "1"}, "a fragment of the number '1'"),
        ({"values": vector(9)}, "a fragment of 9 parameters arrived, 10 are expected"),
        ({"values": vector(10).astype(np.float16)}, "must carry one vector of float32"),
        ({"values": vector(10).reshape(2, 5)}, "must carry one vector of float32"),
        ({"values": np.full(10, np.nan, np.float32)}, "it holds NaN or infinite numbers"),
    ],
)
def test_what_was_not_cut_alike_is_refused_by_name(changes: dict[str, Any], why: str) -> None:
    cutting, model = Fragmentation(30, 3, 1), vector(30)
    good = received(2, cutting.cut(vector(30, 5), 2)[0])
    before = model.copy()
    with pytest.raises(UnusableModel, match=why) as refused:
        cutting.average(model, [good, received(4, spoilt(cutting, **changes))])
    assert refused.value.sender == 4
    assert model.tobytes() == before.tobytes(), "nothing is mixed in"


def test_fragments_of_another_run_or_another_round_are_refused() -> None:
    for ours, theirs, round_ in (
        (Fragmentation(30, 3, 1), Fragmentation(30, 3, 2), 0),
        (Fragmentation(30, 3, 1, "round"), Fragmentation(30, 3, 1), 5),
    ):
        with pytest.raises(UnusableModel, match="by the seed"):
            ours.average(vector(30), [received(4, theirs.cut(vector(30), round_)[0])])
    moved = replace(Fragmentation(30, 3, 1, "round").cut(vector(30), 5)[0], round=6)
    with pytest.raises(UnusableModel, match="by the seed"):
        Fragmentation(30, 3, 1, "round").average(vector(30), [received(4, moved)])


def test_a_newer_fragment_takes_the_place_of_the_same_part_of_the_same_node() -> None:
    (first, second) = Fragmentation(30, 2, 1).cut(vector(30), 2)
    assert [sender_and_part(received(4, each)) for each in (first, second)] == [(4, 0), (4, 1)]
