"""DivShare: train, queue J copies of each fragment of x, then x_p = (x_p + sum of v_p) / (1 + their number)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pytest

from tests.node.second.beside import Second, Values, agree
from tests.node.second.fragments import Cut, average
from tests.node.second.trace import Event, Posted, Started, of_one_round, uneven_world
from tests.node.small_world import World


class DivShare(Second):
    def __init__(self, world: World, *, fraction: float, recipients: int = 3, reseed: str = "never") -> None:
        super().__init__(world)
        self.cut = Cut(round(1 / fraction), world.dimension)
        self.recipients, self.reseed = recipients, reseed
        self.learned = dict(self.x)
        """Models as they were at the end of the last training."""
        self.inbox: dict[int, dict[tuple[int, int], tuple[int, Posted, Values]]] = defaultdict(dict)
        """The newest of each sender and part."""

    def trained(self, node: int, change: Values, steps: int) -> None:  # noqa: ARG002
        self.learned[node] = self.x[node] + change
        arrived = [(self.cut.places(post), values) for _, post, values in self.inbox.pop(node, {}).values()]
        self.x[node] = average(self.learned[node], arrived)

    def carries(self, post: Posted) -> Values:
        model = self.learned[post.node]
        self.cut.see(post, model)
        return model[self.cut.places(post)]

    def arrives(self, post: Posted, values: Values | None) -> None:
        assert values is not None
        inbox, place = self.inbox[post.to], (post.node, int(post.message.fields["part"]))  # type: ignore[arg-type]
        if place not in inbox or post.message.round >= inbox[place][0]:
            inbox[place] = (post.message.round, post, values)

    def ends(self, trace: Sequence[Event]) -> None:
        self.cut.is_complete()
        shuffled = 0
        for (node, _), posts in of_one_round(trace, lambda _: True).items():
            parts: dict[object, list[int]] = defaultdict(list)
            for post in posts:
                parts[post.message.fields["part"]].append(post.to)
            assert set(parts) == set(range(self.cut.parts))
            for drawn in parts.values():
                assert len(set(drawn) - {node}) == len(drawn) == self.recipients
            order = [post.message.fields["part"] for post in posts]
            shuffled += order != sorted(order)  # type: ignore[type-var]
        assert shuffled > 50 or self.cut.parts == 1
        assert len(self.cut.seeds) == 1 or self.reseed == "round"


def flushed(trace: Sequence[Event]) -> int:
    """Checks that nothing of an earlier round begins to leave; gives the number of fragments that never left."""
    round_: dict[int, int] = {}
    unsent = set()
    for event in trace:
        if isinstance(event, Posted):
            round_[event.node] = event.message.round
            unsent.add(event.number)
        elif isinstance(event, Started):
            assert event.post.message.round == round_[event.post.node]
            unsent.remove(event.post.number)
    return len(unsent)


@pytest.mark.parametrize(("fraction", "recipients"), [(0.1, 2), (0.15, 2), (0.25, 3), (1.0, 3)])
def test_divshare(fraction: float, recipients: int) -> None:
    world = uneven_world({"name": "divshare", "fraction": fraction, "recipients": recipients}, until_s=2.0)
    trace = agree(DivShare(world, fraction=fraction, recipients=recipients))
    assert flushed(trace) > 20 or fraction == 1.0


def test_as_many_recipients_as_the_logarithm() -> None:
    agree(DivShare(uneven_world({"name": "divshare", "fraction": 0.5}, until_s=2.0), fraction=0.5, recipients=3))


def test_with_a_new_cut_in_every_round() -> None:
    world = uneven_world({"name": "divshare", "fraction": 0.25, "reseed": "round", "recipients": 2}, until_s=2.0)
    second = DivShare(world, fraction=0.25, recipients=2, reseed="round")
    agree(second)
    assert len(second.cut.seeds) > 20


def test_without_flushing() -> None:
    world = uneven_world({"name": "divshare", "fraction": 0.5}, until_s=2.0, experiment={"outbox": {"policy": "fifo"}})
    agree(DivShare(world, fraction=0.5))


def test_fragments_of_the_averaged_model_are_noticed() -> None:
    class Averaged(DivShare):
        """What is sent has been averaged before."""

        def trained(self, node: int, change: Values, steps: int) -> None:
            super().trained(node, change, steps)
            self.learned[node] = self.x[node]

    with pytest.raises(AssertionError, match=r"not in the model|Mismatched"):
        agree(Averaged(uneven_world({"name": "divshare", "fraction": 0.25}, until_s=2.0), fraction=0.25))
