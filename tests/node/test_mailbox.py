"""The mailbox: who gets which message, whatever comes first."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from testbed.node.mailbox import MOST_MESSAGES, Mailbox, Room
from testbed.node.messages import Message
from tests.node.loops import inside_a_loop


class Hands:
    """A clock that is set by hand."""

    t = 0.0

    def now(self) -> float:
        return self.t


def model(round_: int, kind: str = "model") -> Message:
    return Message(kind, round_, payload=(np.zeros(2, np.float32),))


def test_a_later_round_waits_for_its_turn() -> None:
    def test() -> None:
        box = Mailbox(Hands().now)
        box.put(1, model(5))
        box.put(1, model(4))
        gathering = box.gather("model", 4, [1])
        assert gathering.future.done()
        assert [each.round for each in gathering.by_rank()] == [4]
        box.done(gathering)
        assert [each.round for each in box.take_all(["model"])] == [5]

    inside_a_loop(test)


def test_a_part_is_gathered_from_among_others_of_the_same_sender_and_round() -> None:
    def fragment(part: int) -> Message:
        return Message("model", 2, {"part": part}, (np.zeros(2, np.float32),))

    def test() -> None:
        box = Mailbox(Hands().now)
        box.put(1, fragment(0))
        box.put(1, fragment(1))
        here, coming = box.gather("model", 2, [1], part=1), box.gather("model", 2, [1], part=2)
        assert [each.message.fields["part"] for each in here.by_rank()] == [1]
        box.put(1, fragment(3))
        box.put(1, model(2))
        assert not coming.future.done()
        box.put(1, fragment(2))
        assert [each.message.fields["part"] for each in coming.by_rank()] == [2]
        assert [each.message.fields.get("part") for each in box.take_all(["model"])] == [0, 3, None]

    inside_a_loop(test)


def test_only_what_was_asked_for_is_gathered() -> None:
    def test() -> None:
        box = Mailbox(Hands().now)
        gathering = box.gather("model", 2, [4, 1])
        for sender, message in [(3, model(2)), (1, model(3)), (1, model(1)), (1, model(2, "other")), (4, model(2))]:
            box.put(sender, message)
        assert not gathering.future.done()
        box.put(1, model(2))
        assert gathering.future.done()
        assert [each.sender for each in gathering.by_rank()] == [1, 4]
        box.done(gathering)
        assert [(each.sender, each.round) for each in box.take_all(["model", "other"])] == [
            (1, 1),
            (1, 2),
            (1, 3),
            (3, 2),
        ]

    inside_a_loop(test)


def test_a_second_message_of_one_sender_and_round_is_kept_apart() -> None:
    def test() -> None:
        box = Mailbox(Hands().now)
        first, second = model(0), model(0)
        box.put(1, first)
        box.put(1, second)
        gathering = box.gather("model", 0, [1])
        assert gathering.by_rank()[0].message is first
        box.done(gathering)
        assert box.take(["model"]).message is second  # type: ignore[union-attr]
        assert box.take(["model"]) is None

    inside_a_loop(test)


def test_the_longest_waiting_of_several_kinds_comes_first() -> None:
    def test() -> None:
        box = Mailbox(Hands().now)
        for kind in ("b", "a", "b", "c"):
            box.put(0, Message(kind, 0))
        taken = []
        while (received := box.take(["a", "b"])) is not None:
            taken.append(received.message.kind)
        assert taken == ["b", "a", "b"]

    inside_a_loop(test)


def test_old_rounds_are_thrown_away_and_told() -> None:
    def test() -> None:
        box = Mailbox(Hands().now)
        for round_ in (0, 1, 2, 3):
            box.put(7, model(round_))
        box.put(7, model(0, "other"))
        assert [each.round for each in box.discard_before("model", 2)] == [0, 1]
        assert [each.round for each in box.take_all(["model"])] == [2, 3]
        assert len(box.take_all(["other"])) == 1

    inside_a_loop(test)


@given(st.permutations(range(6)), st.integers(1, 6))
def test_the_first_few_are_those_that_came_first_then_the_lowest_ranks(order: list[int], enough: int) -> None:
    """Three instants with two arrivals each, in any order: who counts depends on time and rank alone."""

    def test() -> None:
        hands = Hands()
        box = Mailbox(hands.now)
        gathering = box.gather("model", 0, range(6), enough)
        instants = [[0, 5], [1, 4], [2, 3]]
        for t, senders in enumerate(instants):
            hands.t = float(t)
            for sender in sorted(senders, key=order.index):
                box.put(sender, model(0))
        assert [each.sender for each in gathering.by_rank()] == sorted([0, 5, 1, 4, 2, 3][:enough])

    inside_a_loop(test)


def test_a_node_is_told_of_bytes_that_crossed_the_network_only() -> None:
    def test() -> None:
        box = Mailbox(Hands().now)
        box.put(1, model(0))
        box.put(0, model(0), counted=False)
        assert box.received.count() == model(0).size
        assert len(box.take_all(["model"])) == 2

    inside_a_loop(test)


def test_nothing_is_given_to_whoever_has_given_up() -> None:
    def test() -> None:
        box = Mailbox(Hands().now)
        wanted = box.want(["model"])
        wanted.give_up()
        box.put(1, model(0))
        assert wanted.future.result() is None
        assert box.take(["model"]) is not None

    inside_a_loop(test)


def test_a_flood_fills_its_own_senders_room_only() -> None:
    def test() -> None:
        box = Mailbox(Hands().now, model(0).nbytes)
        told: list[tuple[int, int]] = []
        box.on_full = lambda sender, dropped: told.append((sender, dropped))
        for number in range(MOST_MESSAGES + 9):
            box.put(3, model(number))
        box.put(1, model(7))
        assert box.refused == 9
        assert told == [(3, 1), (3, 2), (3, 4), (3, 8)]
        kept = box.take_all(["model"])
        assert [each.round for each in kept if each.sender == 3] == list(range(9, MOST_MESSAGES + 9))  # the newest
        assert [each.round for each in kept if each.sender == 1] == [7]
        # What was taken has left room behind.
        for number in range(MOST_MESSAGES):
            box.put(3, model(number))
        assert box.refused == 9

    inside_a_loop(test)


def test_room_is_for_so_many_models_or_so_many_bytes() -> None:
    large = Message("model", 0, payload=(np.zeros(1 << 20, np.float32),))
    for model_bytes, most in ((0, 3), (1 << 22, 15), (1 << 23, 31)):
        room = Room(model_bytes)
        taken = 0
        while room.take(1, large):
            taken += 1
        assert taken == most  # a header comes on top, so that the last does not fit
        assert room.take(2, large)
        room.leave(1, large)
        assert room.take(1, large)
        assert not room.take(1, large)


def test_somebody_who_waits_gets_a_message_however_full_it_is() -> None:
    def test() -> None:
        box = Mailbox(Hands().now)
        for number in range(MOST_MESSAGES):
            box.put(3, model(number, "noise"))
        gathering = box.gather("model", 0, [3])
        box.put(3, model(0))
        assert gathering.future.done()
        box.done(gathering)
        assert box.refused == 0

    inside_a_loop(test)


def test_a_slow_node_has_the_newest_of_each_part_and_other_messages_stay() -> None:
    def test() -> None:
        box = Mailbox(Hands().now)
        note = Message("note", 0)
        for _ in range(MOST_MESSAGES - 2):
            box.put(3, note)
        for round_ in range(3):
            for part in range(2):
                box.put(3, model(round_).with_fields(part=part))
        kept = box.take_all(["model"])
        assert [(each.round, each.message.fields["part"]) for each in kept] == [(2, 0), (2, 1)]
        assert len(box.take_all(["note"])) == MOST_MESSAGES - 2
        assert box.refused == 4

    inside_a_loop(test)
