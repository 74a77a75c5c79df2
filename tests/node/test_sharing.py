"""Ways of sharing: what is in a message, how it is mixed in, and that nonsense is refused."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.node.choose import choose_sharing
from testbed.node.kinds import MODEL
from testbed.node.messages import Message, Received, UnusableModel, from_frames
from testbed.node.sharing.base import Sharing, whole_in
from testbed.node.sharing.random_sampling import RandomSampling
from testbed.node.sharing.topk import TopK, largest
from testbed.node.world import Vector
from testbed.seeds import stream
from tests.node.vectors import vector


def chance() -> Random:
    return stream(1, "test")


KINDS = ("full", "random", "topk")


def made(kind: str, model: Vector, fraction: float = 0.25) -> Sharing:
    options: dict[str, object] = {} if kind == "full" else {"fraction": fraction}
    sharing = choose_sharing(kind, options, chance())
    sharing.begin(model)
    return sharing


def arrived(message: Message, sender: int = 1) -> Received:
    frames = [bytes(frame) if isinstance(frame, bytes) else frame.tobytes() for frame in message.frames()]
    return Received(sender, from_frames(frames))


@given(st.integers(1, 200), st.floats(0.0, 1.0), st.sampled_from(KINDS), st.integers(0, 99))
def test_what_is_decoded_is_what_the_sender_had_there(size: int, fraction: float, kind: str, seed: int) -> None:
    sharing = made(kind, vector(size), fraction)
    model = vector(size, seed + 1)
    places, values = made(kind, vector(size), fraction).decode(arrived(sharing.encode(model, 0)).message, size)
    assert values.tolist() == (model if places is None else model[places]).tolist()
    if kind == "topk" and fraction < 0.5:  # from there on all of them are sent
        assert values.size == round(fraction * size)


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_does_not_change_with_the_model(kind: str) -> None:
    model = vector(100)
    sharing = made(kind, np.zeros(100, np.float32))
    message = sharing.encode(model, 0)
    before = [buffer.tobytes() for buffer in (*message.payload, *message.metadata)]
    model += 1
    assert [buffer.tobytes() for buffer in (*message.payload, *message.metadata)] == before
    for buffer in (*message.payload, *message.metadata):
        assert not buffer.flags.writeable


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_is_alone_stays_bit_for_bit(kind: str) -> None:
    model = vector(64)
    model[0] = -0.0
    before = model.tobytes()
    sharing = made(kind, model)
    sharing.average(model, [])
    sharing.mean(model, [])
    assert model.tobytes() == before


@given(st.integers(1, 60), st.lists(st.integers(0, 6), max_size=4), st.sampled_from(KINDS))
def test_missing_parameters_are_filled_with_the_own_ones(size: int, degrees: list[int], kind: str) -> None:
    """Against the definition: fill in every message, then weigh whole models."""
    model = vector(size)
    received, filled = [], []
    for number, degree in enumerate(degrees):
        other = vector(size, 10 + number)
        message = made(kind, np.zeros(size, np.float32)).encode(other, 0).with_fields(degree=degree)
        received.append(arrived(message, number))
        places, values = made(kind, model).decode(message, size)
        whole = model.astype(np.float64)
        whole[slice(None) if places is None else places] = values
        filled.append(whole)
    weights = [1 / (1 + max(len(degrees), degree)) for degree in degrees]
    expected = (1 - sum(weights)) * model + sum(w * x for w, x in zip(weights, filled, strict=True))
    mixed = model.copy()
    made(kind, model).average(mixed, received)
    np.testing.assert_allclose(mixed, expected, rtol=0, atol=1e-5)
    mixed = model.copy()
    made(kind, model).mean(mixed, received)
    expected = (model + sum(filled)) / (1 + len(filled))
    np.testing.assert_allclose(mixed, expected, rtol=0, atol=1e-5)


def test_the_own_degree_counts_even_when_somebody_is_missing() -> None:
    other = arrived(Sharing(chance()).encode(np.ones(1, np.float32), 0).with_fields(degree=1))
    for degree, expected in ((None, 0.5), (3, 0.25)):
        model = np.zeros(1, np.float32)
        Sharing(chance()).average(model, [other], degree)
        assert model[0] == expected


def test_random_draws_as_many_as_asked_for_and_others_every_time() -> None:
    model = vector(20_000)
    sharing = RandomSampling(stream(5, "test"), fraction=0.1)
    counts, masks = [], []
    for round_ in range(20):
        places, values = sharing.decode(sharing.encode(model, round_), model.size)
        assert places is not None
        counts.append(values.size)
        masks.append(places)
    # Standard deviation of one count: 42; of their mean: 9.5.
    assert 1960 < np.mean(counts) < 2040
    assert 15 < np.std(counts) < 90
    assert 150 < np.intersect1d(masks[0], masks[1]).size < 250, (
        "independent masks have one place in a hundred in common"
    )


def test_random_masks_are_the_same_on_every_machine() -> None:
    """Only the raw bits of the generator are promised to stay; this notices if they do not."""
    message = Message(MODEL, 0, {"seed": 42, "fraction": 0.25}, (np.zeros(4, np.float32),))
    places, _ = RandomSampling(chance()).decode(message, 16)
    assert places is not None
    assert places.tolist() == [0, 6, 8, 9]


def test_topk_without_a_tie_is_a_sort() -> None:
    values = np.abs(vector(1000))
    for count in (0, 1, 10, 999, 1000):
        assert largest(values, count).tolist() == sorted(np.argsort(values)[1000 - count :].tolist())


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(0, 45))
def test_of_equal_changes_the_first_are_taken(numbers: list[int], count: int) -> None:
    values = np.array(numbers, np.float32)
    expected = sorted(sorted(range(len(numbers)), key=lambda place: (-numbers[place], place))[:count])
    assert largest(values, count).tolist() == expected


def train(sharing: Sharing, model: Vector, *by: float) -> None:
    """As a node does."""
    change = np.array(by, np.float32)
    model += change
    sharing.trained(change)


def test_topk_accumulates_what_training_changed_and_was_not_sent() -> None:
    sharing = TopK(chance(), fraction=0.25)
    model = np.zeros(4, np.float32)
    sharing.begin(model)
    train(sharing, model, 0, 3, -4, 1.5)
    message = sharing.encode(model, 0)
    assert message.metadata[0].tolist() == [2]
    assert message.payload[0].tolist() == [-4.0], "values go, not changes"
    sharing.mix(model, [], [])
    train(sharing, model, 2.5, 0, 0, 0)
    assert sharing.encode(model, 1).metadata[0].tolist() == [1], "3 from before is more than 2.5 now; 4 was sent"
    sharing.mix(model, [], [])
    train(sharing, model, 0, 0, 0, 1.5)
    assert sharing.encode(model, 2).metadata[0].tolist() == [3], "1.5 twice"


def test_topk_does_not_take_what_others_brought_for_a_change_of_its_own() -> None:
    sharing = TopK(chance(), fraction=0.25)
    model = np.zeros(4, np.float32)
    sharing.begin(model)
    other = arrived(Sharing(chance()).encode(np.array([0, 100, 0, 0], np.float32), 0))
    sharing.mix(model, [other], [0.5])
    assert model[1] == 50.0
    train(sharing, model, 0, 0, 0, 1)
    assert sharing.encode(model, 1).metadata[0].tolist() == [3]
    sharing.adopt(model, other)
    assert model.tolist() == [0, 100, 0, 0]
    train(sharing, model, 0, 0, 1, 0)
    assert sharing.encode(model, 2).metadata[0].tolist() == [2]


def test_topk_keeps_what_was_trained_between_encoding_and_mixing() -> None:
    sharing = TopK(chance(), fraction=0.25)
    model = np.zeros(4, np.float32)
    sharing.begin(model)
    train(sharing, model, 1, 0, 0, 0)
    sharing.encode(model, 0)
    train(sharing, model, 0, 0, 0, 2)
    sharing.mix(model, [], [])
    train(sharing, model, 0, 1.9, 0, 0)
    assert sharing.encode(model, 1).metadata[0].tolist() == [3]


@pytest.mark.parametrize("kind", ["random", "topk"])
def test_much_is_sent_whole(kind: str) -> None:
    model = vector(40)
    for fraction, dense in ((0.49, False), (0.5, True), (0.51, True), (1.0, True)):
        message = made(kind, model, fraction).encode(model, 0)
        assert (message.payload[0].size == 40 and not message.metadata and not message.fields) == dense


def test_bytes_of_sparse_messages() -> None:
    """Indices cost as much as values; a seed costs the same for any model."""
    model = vector(10_000)
    message = made("topk", np.zeros(10_000, np.float32), 0.1).encode(model, 0)
    assert (message.size.payload, message.size.metadata - len(message.header)) == (4000, 4000)
    message = made("random", model, 0.1).encode(model, 0)
    assert message.size.metadata == len(message.header) <= 64
    assert message.size.payload == 4 * message.payload[0].size


F4, I4 = np.float32, np.int32


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("full", Message(MODEL, 0, payload=(np.zeros(7, F4),))),
        ("full", Message(MODEL, 0, payload=(np.zeros(9, F4),))),
        ("full", Message(MODEL, 0)),
        ("full", Message(MODEL, 0, payload=(np.zeros(8, F4), np.zeros(8, F4)))),
        ("full", Message(MODEL, 0, payload=(np.zeros(8, I4),))),
        ("full", Message(MODEL, 0, payload=(np.zeros((2, 4), F4),))),
        ("full", Message(MODEL, 0, payload=(np.zeros(4, np.int64),))),
        ("topk", Message(MODEL, 0, payload=(np.zeros(2, F4),), metadata=(np.array([0, 8], I4),))),
        ("topk", Message(MODEL, 0, payload=(np.zeros(2, F4),), metadata=(np.array([-1, 3], I4),))),
        ("topk", Message(MODEL, 0, payload=(np.zeros(2, F4),), metadata=(np.array([3, 3], I4),))),
        ("topk", Message(MODEL, 0, payload=(np.zeros(2, F4),), metadata=(np.array([3, 1], I4),))),
        ("topk", Message(MODEL, 0, payload=(np.zeros(3, F4),), metadata=(np.array([7, -9, 7], I4),))),
        ("topk", Message(MODEL, 0, payload=(np.zeros(2, F4),), metadata=(np.array([3], I4),))),
        ("topk", Message(MODEL, 0, payload=(np.zeros(2, F4),), metadata=(np.array([[1, 3]], I4),))),
        ("topk", Message(MODEL, 0, payload=(np.zeros(2, F4),), metadata=(np.array([1, 3], np.int64),))),
        ("topk", Message(MODEL, 0, payload=(np.zeros(1, F4),), metadata=(np.array([1], I4), np.array([1], I4)))),
        ("topk", Message(MODEL, 0, metadata=(np.array([1], I4),))),
        ("random", Message(MODEL, 0, {"seed": 1, "fraction": 1.0}, (np.zeros(7, F4),))),
        ("random", Message(MODEL, 0, {"seed": -1, "fraction": 1.0}, (np.zeros(8, F4),))),
        ("random", Message(MODEL, 0, {"seed": 2**63 - 1, "fraction": 1.0}, (np.zeros(8, F4),))),
        ("random", Message(MODEL, 0, {"seed": True, "fraction": 1.0}, (np.zeros(8, F4),))),
        ("random", Message(MODEL, 0, {"seed": "1", "fraction": 1.0}, (np.zeros(8, F4),))),
        ("random", Message(MODEL, 0, {"seed": 1}, (np.zeros(8, F4),))),
        ("random", Message(MODEL, 0, {"seed": 1, "fraction": float("nan")}, (np.zeros(8, F4),))),
        ("random", Message(MODEL, 0, {"seed": 1, "fraction": 1.5}, (np.zeros(8, F4),))),
        ("random", Message(MODEL, 0, {"seed": 1, "fraction": 1.0})),
    ],
)
def test_nonsense_is_refused_and_nothing_is_changed(kind: str, message: Message) -> None:
    model = vector(8)
    before = model.tobytes()
    good = arrived(Sharing(chance()).encode(vector(8, 1), 0))
    with pytest.raises(UnusableModel, match=r"the node of rank 7 sent .*(arrived|carry|ascending)"):
        made(kind, model).mix(model, [good, Received(7, message)], [0.3, 0.3])
    assert model.tobytes() == before


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("kind", ["full", "random", "topk"])
def test_who_sends_what_is_no_number_is_named(kind: str, wrong: float) -> None:
    """Else it would be who received it that could not train any more."""
    model = vector(8)
    before = model.tobytes()
    sick = np.full(8, wrong, F4)
    with pytest.raises(UnusableModel, match=r"the node of rank 7 sent .*: it holds NaN"):
        made(kind, model).mix(model, [Received(7, Sharing(chance()).encode(sick, 0))], [0.5])
    with pytest.raises(UnusableModel, match="the node of rank 7 sent"):
        made(kind, model).adopt(model, Received(7, Sharing(chance()).encode(sick, 0)))
    assert model.tobytes() == before


@pytest.mark.parametrize("kind", ["random", "topk"])
@pytest.mark.parametrize("options", [{"fraction": 1.2}, {"fraction": -0.1}, {"dense_above": 2}, {"fraction": "0.1"}])
def test_bad_options_are_refused(kind: str, options: dict[str, object]) -> None:
    with pytest.raises(Exception, match="must be a number from 0 to 1"):
        choose_sharing(kind, options, chance())


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ((np.ones(3, np.float32),), "a gradient of 3 parameters arrived, 5 are expected"),
        ((np.full(5, np.nan, np.float32),), "NaN or infinite"),
        ((np.ones(5, np.float16),), "must carry one vector of float32"),
        ((), "it carries: nothing"),
    ],
)
def test_who_sends_a_gradient_that_is_none_is_named(payload: tuple[np.ndarray, ...], words: str) -> None:
    with pytest.raises(UnusableModel, match=words) as caught:
        whole_in(Received(7, Message("gradient", 0, payload=payload)), 5, "gradient")
    assert caught.value.sender == 7
    sound = Received(7, Message("gradient", 0, payload=(np.arange(5, dtype=np.float32),)))
    assert whole_in(sound, 5, "gradient").tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
