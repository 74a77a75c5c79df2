"""What a node that came back asks for, and what its peers answer: every model once, and no wait in vain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from testbed.node.comeback import ANY, Comeback, Memory
from testbed.node.kinds import AGAIN, FRAGMENT_SENT_AGAIN, PAST, RESERVED, SENT_AGAIN
from testbed.node.mailbox import Gathering, Mailbox
from testbed.node.messages import Message
from testbed.node.outbox import Outbox, Policy
from tests.node.loops import inside_a_loop
from tests.node.small_world import World, _Running, full

SERVER = 9


def model(round_: int, value: float = 0.0) -> Message:
    return Message("model", round_, payload=(np.full(4, value, np.float32),))


def fragment(round_: int, part: int) -> Message:
    return Message("fragment", round_, {"part": part}, payload=(np.full(4, part, np.float32),))


class Post:
    """A transport that lets messages leave when it is told to."""

    def __init__(self) -> None:
        self.shipped: list[tuple[int, Message]] = []
        self._leaving: list[Callable[[], None]] = []
        self.aborted = 0

    def ship(self, to: int, message: Message, on_left: Callable[[], None]) -> Post:
        self.shipped.append((to, message))
        self._leaving.append(on_left)
        return self

    def sent_bytes(self) -> int:
        return 0

    def quiet_s(self) -> float:
        return 0.0

    def abort(self, *, at_once: bool = False) -> int:  # noqa: ARG002
        self.aborted += 1
        return 0

    def leave(self) -> None:
        """All that is under way, and what follows."""
        while self._leaving:
            self._leaving.pop(0)()

    def words(self) -> list[tuple[int, str, int]]:
        """What was shipped since the last time."""
        self.leave()
        found = [(to, message.kind, message.round) for to, message in self.shipped]
        self.shipped.clear()
        return found


class Back:
    """A node that came back, with a mailbox and an outbox, and nothing else."""

    def __init__(self, server: int | None = None, in_flight: int | None = None) -> None:
        self.post = Post()
        self.outbox = Outbox(self.post, Policy.FIFO, in_flight)
        self.mailbox = Mailbox(lambda: 0.0)
        self.left_out: list[tuple[int, int]] = []
        self.comeback = Comeback(self.mailbox, self.outbox, server, self._leave_out)
        self.mailbox.sift = self.comeback.sift

    def _leave_out(self, gathering: Gathering, sender: int) -> None:
        self.left_out.append((sender, gathering.round))
        gathering.leave_out(sender)

    def gather(self, round_: int, *senders: int, part: int | None = None) -> Gathering:
        gathering = self.mailbox.gather("model" if part is None else "fragment", round_, senders, part=part)
        self.comeback.begins(gathering)
        return gathering

    def done(self, gathering: Gathering) -> list[int]:
        """Who was found."""
        assert gathering.future.done()
        self.mailbox.done(gathering)
        self.comeback.ends(gathering)
        return [each.sender for each in gathering.by_rank()]


# -- those that are asked ------------------------------------------------------------------------------------------


def remembering(first_round: int = 0, *, serves: bool = False) -> tuple[Memory, Outbox, Post]:
    post = Post()
    outbox = Outbox(post, Policy.FIFO, None)
    return Memory(outbox, first_round, serves=serves), outbox, post


@pytest.mark.parametrize("wanted", [3, 5])
def test_the_last_model_is_sent_again_with_the_very_same_values(wanted: int) -> None:
    memory, _, post = remembering()
    sent = model(5, 0.5)
    memory.sent([1, 2], sent)
    memory.answer(1, wanted)
    ((to, again),) = post.shipped
    assert (to, again.kind, again.round) == (1, SENT_AGAIN, 5)
    assert again.payload[0] is sent.payload[0]
    assert again.size.payload == sent.size.payload  # bytes of a model, which they are


def test_what_is_still_to_come_is_not_answered() -> None:
    memory, outbox, post = remembering()
    memory.sent([1], model(5))
    memory.answer(1, 6)
    memory.answer(2, 5)
    assert post.words() == []
    outbox.post(1, model(5))  # on its way: it reaches any life
    memory.answer(1, 5)
    memory.answer(1, 5)
    assert post.words() == [(1, "model", 5)]
    memory.answer(1, 5)
    memory.answer(1, 5)
    assert post.words() == [(1, SENT_AGAIN, 5)], "one at a time, however often it is asked for"


def test_of_earlier_rounds_only_their_numbers_are_remembered() -> None:
    memory, _, post = remembering()
    memory.sent([1, 2], model(5))
    memory.sent([2, 3], model(6))
    memory.answer(1, 4)
    memory.answer(1, 6)
    assert post.words() == [(1, PAST, 5)]
    memory.sent([3], model(6, 1.0))  # several of one round are kept
    memory.answer(2, 5)
    assert post.words() == [(2, SENT_AGAIN, 6)]


def test_a_life_that_began_later_has_nothing_of_earlier_rounds() -> None:
    memory, _, post = remembering(first_round=7)
    memory.answer(1, 7)
    memory.answer(2, 6)
    assert post.words() == [(2, PAST, 6)]


def test_a_server_keeps_what_was_not_answered_whatever_the_round() -> None:
    memory, _, post = remembering(serves=True)
    memory.sent([1, 2], model(5))
    memory.sent([3], model(6))
    memory.answered(2)
    for client in (1, 2, 3, 4):
        memory.answer(client, ANY)
    assert post.words() == [(1, SENT_AGAIN, 5), (2, PAST, 5), (3, SENT_AGAIN, 6)]


def test_all_fragments_of_the_last_round_are_sent_again_and_then_that_there_are_no_others() -> None:
    memory, _, post = remembering()
    for round_, part, to in ((5, 0, 1), (5, 2, 1), (6, 3, 1), (6, 1, 1), (6, 1, 2)):
        memory.sent([to], fragment(round_, part))
    for wanted in (5, 6):
        memory.answer(1, wanted)
        post.leave()
        assert [(to, each.kind, each.round, each.fields.get("part")) for to, each in post.shipped] == [
            (1, FRAGMENT_SENT_AGAIN, 6, 1),
            (1, FRAGMENT_SENT_AGAIN, 6, 3),
            (1, PAST, 6, None),
        ]
        post.shipped.clear()
    memory.answer(1, 7)
    assert post.words() == [], "still to come"
    memory.sent([3], fragment(7, 0))
    memory.answer(2, 6)
    assert post.words() == [(2, PAST, 6)]


def test_a_server_keeps_the_fragments_of_one_round_for_each_client() -> None:
    memory, _, post = remembering(serves=True)
    for round_, part in ((5, 0), (5, 2), (6, 1)):
        memory.sent([1], fragment(round_, part))
    memory.sent([2], fragment(5, 0))
    memory.answer(1, ANY)
    memory.answer(2, ANY)
    assert post.words() == [
        (1, FRAGMENT_SENT_AGAIN, 6),
        (2, FRAGMENT_SENT_AGAIN, 5),
        (1, PAST, 6),
        (2, PAST, 5),
    ]


def test_nobody_gets_an_answer_after_the_end_or_anything_but_models() -> None:
    memory, _, post = remembering()
    memory.sent([1], Message("word", 3))
    memory.answer(1, 3)
    memory.sent([1], model(3))
    memory.is_closed = True
    memory.answer(1, 3)
    assert post.words() == []


# -- those that ask ------------------------------------------------------------------------------------------------


def test_only_what_is_missing_is_asked_for_and_once() -> None:
    def test() -> None:
        back = Back()
        back.mailbox.put(2, model(4))
        gathering = back.gather(4, 1, 2, 3)
        assert back.post.words() == [(1, AGAIN, 4), (3, AGAIN, 4)]
        for sender in (1, 3):
            back.mailbox.put(sender, model(4).of_kind(SENT_AGAIN))
        assert back.done(gathering) == [1, 2, 3]
        assert [each.message.kind for each in gathering.by_rank()] == ["model"] * 3
        back.gather(5, 1, 2, 3)
        assert back.post.words() == []

    inside_a_loop(test)


def test_a_model_that_comes_twice_is_taken_once() -> None:
    def test() -> None:
        back = Back()
        for _ in range(2):
            back.mailbox.put(1, model(4).of_kind(SENT_AGAIN))
        back.mailbox.put(2, model(4))
        back.mailbox.put(2, model(4).of_kind(SENT_AGAIN))
        assert [each.sender for each in back.mailbox.take_all(["model"])] == [1, 2]
        back.mailbox.put(1, model(4).of_kind(SENT_AGAIN))
        assert back.mailbox.take_all(["model"]) == []
        back.mailbox.put(1, model(5))
        back.mailbox.put(1, model(5))  # its sender means it
        assert len(back.mailbox.take_all(["model"])) == 2

    inside_a_loop(test)


def test_each_fragment_is_asked_for_and_taken_once() -> None:
    def test() -> None:
        back = Back()
        back.mailbox.put(1, fragment(4, 0))
        assert back.done(back.gather(4, 1, part=0)) == [1]
        gathering = back.gather(4, 1, part=1)
        assert back.post.words() == [(1, AGAIN, 4)], "one part was here, another one was lost"
        for part in (0, 1, 2):
            back.mailbox.put(1, fragment(4, part).of_kind(FRAGMENT_SENT_AGAIN))
        assert not back.mailbox.take_all(["fragment-sent-again"])
        assert back.done(gathering) == [1]
        back.mailbox.put(1, Message(PAST, 4))
        assert [each.message.fields["part"] for each in back.mailbox.take_all(["fragment"])] == [2]
        assert back.done(back.gather(4, 1, part=3)) == [], "it was not among them"
        assert back.left_out == [(1, 4)]
        back.mailbox.put(1, fragment(5, 1))
        back.mailbox.put(1, fragment(4, 1).of_kind(FRAGMENT_SENT_AGAIN))
        back.mailbox.put(1, fragment(5, 1).of_kind(FRAGMENT_SENT_AGAIN))
        assert [each.round for each in back.mailbox.take_all(["fragment"])] == [5]
        assert back.post.words() == []

    inside_a_loop(test)


def test_a_peer_that_sends_fragments_of_strange_numbers_fills_no_memory() -> None:
    back = Back()
    for part in (-1, 1 << 40, 1 << 16, True):
        back.mailbox.put(1, fragment(4, part))
    assert back.comeback._arrived == {1: (4, {None})}


@pytest.mark.parametrize("answer", [Message(PAST, 5), model(6), model(6).of_kind(SENT_AGAIN)])
def test_who_is_further_on_is_left_out_of_rounds_that_are_past(answer: Message) -> None:
    def test() -> None:
        back = Back()
        for round_ in (4, 5):
            gathering = back.gather(round_, 1, 2)
            back.mailbox.put(2, model(round_))
            if round_ == 4:
                assert not gathering.future.done()
                back.mailbox.put(1, answer)
            assert back.done(gathering) == [2]
        assert back.left_out == [(1, 4), (1, 5)]
        gathering = back.gather(6, 1)
        assert gathering.future.done() is (answer.kind != PAST), "the answer is used in its round, or its like comes"
        back.mailbox.put(1, model(6))
        assert back.done(gathering) == [1]

    inside_a_loop(test)


def test_who_has_been_found_is_waited_for_like_anybody() -> None:
    """From then on a model that is missing is late, and nothing else."""

    def test() -> None:
        back = Back()
        back.mailbox.put(1, model(4))
        back.done(back.gather(4, 1))
        back.mailbox.put(1, model(6))
        gathering = back.gather(5, 1)
        back.mailbox.put(1, Message(PAST, 9))
        back.comeback.finished({1})
        assert not gathering.future.done()
        assert back.left_out == []

    inside_a_loop(test)


def test_who_is_done_and_gone_is_not_waited_for() -> None:
    def test() -> None:
        back = Back()
        gathering = back.gather(4, 1, 2)
        back.comeback.finished({2})
        assert not gathering.future.done()
        back.comeback.finished({1, 2})
        assert back.done(gathering) == []
        back.post.words()
        other = back.gather(5, 2, 3)
        assert (other.missing, back.post.words()) == ({3}, [(3, AGAIN, 5)])

    inside_a_loop(test)


def test_a_client_asks_its_server_for_any_round_unless_something_is_here() -> None:
    def test() -> None:
        back = Back(SERVER)
        back.mailbox.put(SERVER, Message("over", 3))
        back.comeback.wants(back.mailbox.want(["model", "over"]), for_ever=True)
        back.comeback.wants(back.mailbox.want(["word"]), for_ever=True)
        assert back.post.words() == []
        for _ in range(2):
            back.comeback.wants(back.mailbox.want(["model"]), for_ever=True)
        assert back.post.words() == [(SERVER, AGAIN, ANY)]

    inside_a_loop(test)


@pytest.mark.parametrize("first", [True, False])
def test_nobody_waits_for_ever_for_a_server_that_is_done(first: bool) -> None:
    def test() -> None:
        back = Back(SERVER)
        if first:
            back.comeback.finished({SERVER})
        wanted = back.mailbox.want(["model"])
        back.comeback.wants(wanted, for_ever=True)
        back.comeback.finished({SERVER})
        assert wanted.future.done()
        assert wanted.future.result() is None
        assert len(back.post.words()) == (not first)
        limited = back.mailbox.want(["model"])
        back.comeback.wants(limited, for_ever=False)
        assert not limited.future.done(), "it has an end of its own"

    inside_a_loop(test)


@pytest.mark.parametrize("in_flight", [None, 1])
def test_questions_hold_nobody_up_in_the_end(in_flight: int | None) -> None:
    def test() -> None:
        back = Back(in_flight=in_flight)
        back.outbox.post(1, Message("word", 3))
        back.gather(4, 1, 2)  # one question waits, and the other one too where only one message may be under way
        after = back.outbox.post(2, Message("word", 4))
        back.comeback.is_over()
        assert back.post.words() == [(1, "word", 3), *([(2, AGAIN, 4)] if in_flight is None else []), (2, "word", 4)]
        assert after.left
        assert back.outbox.is_empty
        assert back.outbox.dropped == 2
        back.comeback.is_over()

    inside_a_loop(test)


# -- words of one's own --------------------------------------------------------------------------------------------

WORDS = """
from testbed.node.algorithm import Algorithm
from testbed.node.messages import Message


class Mine(Algorithm):
    async def run(self, node):
        async for round_ in node.rounds():
            LINE
"""
LINES = (
    "await node.send(node.others, Message(KIND, round_))",
    "await node.receive(KIND)",
    "await node.receive_all('word', KIND)",
    "await node.newest(KIND)",
    "await node.gather(node.others, round_, KIND)",
    "node.arrived(KIND)",
)


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("kind", sorted(RESERVED))
def test_a_kind_that_nodes_use_themselves_is_refused_with_its_place(kind: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(WORDS.replace("LINE", line.replace("KIND", repr(kind))))
    outcome = World(2, algorithm={"name": f"{tmp_path / 'mine.py'}:Mine"}, graph=full(2)).run()
    for rank in range(2):
        failure = outcome.end(rank).failure
        assert failure is not None
        assert f"`{kind}`" in failure.message
        assert (failure.file, failure.line) == ("mine.py", 9)


def test_they_are_these() -> None:
    """The documentation names them."""
    answers = {"sent-again", "fragment-sent-again", "rounds-past"}
    views = {"shuffle-views", "views-shuffled"}
    assert set(RESERVED) == {"goodbye", "send-again", *answers, "ask-peers", "peers", *views}


def test_answers_that_nobody_asked_for_are_not_models() -> None:
    """A node that was always there has all that was sent to it."""
    forged: dict[tuple[int, int], bool] = {}

    def arrives(sender: int, to: int, message: Message) -> None:
        if message.kind == "model" and not forged.get((sender, to)):
            forged[sender, to] = True
            for kind in (SENT_AGAIN, PAST, AGAIN):
                nodes[to].mailbox.put(sender, message.of_kind(kind))

    world = World(3, graph=full(3), rounds=4, on_arrival=arrives)
    running = _Running(world)
    nodes = running._nodes
    found = running.run()
    assert forged
    for rank in range(3):
        assert [each.aggregated for each in found.rounds(rank)] == [2] * 4
        assert not sum(each.expired for each in found.rounds(rank))
