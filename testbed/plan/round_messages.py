"""The messages of a round: who sends what to whom.

Takes a `RunPlan`, gives messages, to be counted or rehearsed; pure. What the nodes of a run draw themselves is drawn
here from other streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise

from testbed.catalogue.exchanges import InTurns, Partners, WithPeers, WithServer
from testbed.catalogue.shares import part_of
from testbed.plan.model import RunPlan
from testbed.plan.outbox import outbox_of
from testbed.plan.rehearse import Parts
from testbed.plan.rehearse_free import Free
from testbed.plan.rehearse_rounds import Peers, Post, Posts, Served
from testbed.plan.rehearse_turns import Turns
from testbed.plan.traffic import CONTROL_BYTES, exchange_in, messages_in, neighbours_in, sent_bytes
from testbed.seeds import stream

_NO_SERVER = "a plan of an algorithm with a server has one"


@dataclass(frozen=True)
class Phase:
    """Messages that are sent at the same time."""

    pairs: tuple[tuple[int, int], ...]
    """Senders and recipients."""
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Traffic:
    """Messages with a payload of one round."""

    phases: tuple[Phase, ...]
    control: int
    """Bytes of small messages in all."""


def traffic_of(plan: RunPlan, round_: int = 0) -> Traffic:
    """The messages of one round of a plan whose model's size is known."""
    match exchange_in(plan):
        case WithServer() as exchange if plan.server is not None:
            asked, (down, up) = _asked(plan, _clients(plan, exchange)[1], round_), _down_and_up(plan)
            there = tuple((plan.server, rank) for rank in asked)
            back = tuple((rank, plan.server) for rank in asked)
            return Traffic((Phase(there, (down,) * len(there)), Phase(back, (up,) * len(back))), 0)
        case InTurns() as exchange:
            return Traffic(_turns(plan, exchange, round_), _control_of_learners(plan))
        case WithPeers() as exchange:
            return _with_peers(plan, exchange, round_)
    raise AssertionError(_NO_SERVER)


def parts_of(plan: RunPlan) -> Parts:
    """The messages of all rounds, to be rehearsed."""
    match exchange_in(plan):
        case WithServer() as exchange if plan.server is not None:
            wanted, asked = _clients(plan, exchange)
            down, up = _down_and_up(plan)
            return Served(
                plan.server,
                partial(_asked, plan, asked),
                wanted,
                down,
                up,
                deadline_s=exchange.deadline_s,
                at_once=not exchange.waits,
            )
        case WithPeers() as exchange:
            messages = lru_cache(maxsize=None)(partial(posts_of, plan, exchange))
            if exchange.is_free and plan.overlay.sampler is None:
                return Free(messages, outbox_of(plan.experiment), CONTROL_BYTES)
            return Peers(
                messages,
                sampler=plan.overlay.sampler,
                notes=exchange.tells_others,
                wait_s=exchange.pause_s,
                control_size=CONTROL_BYTES,
            )
        case InTurns() as exchange:
            active = partial(_asked, plan, exchange.active)
            view = CONTROL_BYTES + 4 * len(plan.learners) if exchange.asks else None
            return Turns(active, exchange.meets, exchange.collected, exchange.to_all, _turn_bytes(plan), view)
    raise AssertionError(_NO_SERVER)


def posts_of(plan: RunPlan, exchange: WithPeers, round_: int) -> Posts:
    """What each learner posts in a round; answers belong to the messages that they answer."""
    sorts, neighbours = messages_in(plan), neighbours_in(plan, round_)
    degree = sum(map(len, neighbours.values())) / max(1, len(neighbours))
    if exchange.partners is Partners.ANY:
        neighbours = {rank: tuple(other for other in plan.learners if other != rank) for rank in plan.learners}
        degree = plan.overlay.degree or 0
    answers = {sort: answer for sort, answer in pairwise(sorts) if answer.answers}
    found: dict[int, list[Post]] = {rank: [] for rank in plan.learners}
    for number, sort in enumerate(sorts):
        if sort.answers or (exchange.tells_others and not sort.part):
            continue
        size, answer = sent_bytes(plan, sort), answers.get(sort)
        back = 0 if answer is None else sent_bytes(plan, answer)
        for place, (rank, others) in enumerate(neighbours.items()):
            # A mean over learners: with all neighbours, who has more of them sends more.
            to_all = exchange.fanout is None and exchange.partners is not Partners.ANY
            count = sort.count * len(others) / degree if to_all and degree else sort.count
            group = len(others) if to_all else exchange.fanout or int(degree)
            # Fractions go to nodes in turn, so that their sum is right in every round.
            whole = int(count) + int((place + round_ + 1) * (count % 1)) - int((place + round_) * (count % 1))
            for part, to in _recipients(plan, others, whole, group, (round_, rank, number)):
                found[rank].append(Post(to, size, back, part))
    return {rank: tuple(posts) for rank, posts in found.items()}


def _with_peers(plan: RunPlan, exchange: WithPeers, round_: int) -> Traffic:
    posts, count = posts_of(plan, exchange, round_), len(plan.learners)
    pairs, sizes, control = [], [], 0
    for rank, of_rank in posts.items():
        for post in of_rank:
            for origin, dest, size in ((rank, post.to, post.size), (post.to, rank, post.answer)):
                if size > CONTROL_BYTES:
                    pairs.append((origin, dest))
                    sizes.append(size)
                else:
                    control += size
    notes = count * (count - 1) - len(pairs) if exchange.tells_others else 0
    questions = 2 * count if plan.overlay.sampler is not None else 0
    return Traffic((Phase(tuple(pairs), tuple(sizes)),), control + (notes + questions) * CONTROL_BYTES)


def _recipients(
    plan: RunPlan, among: tuple[int, ...], count: int, group: int, place: tuple[int, int, int]
) -> Iterator[tuple[int, int]]:
    """That many recipients, in groups of different ones: the number of the group, and a rank."""
    round_, rank, sort = place
    random = stream(plan.seed, "estimate", str(round_), str(rank), *([str(sort)] if sort else []))
    left, part = count, 0
    while left > 0 and among and group > 0:
        now = min(left, group, len(among))
        chosen = among if now >= len(among) else sorted(random.sample(among, now))
        yield from ((part, to) for to in chosen)
        left -= now
        part += 1


def _turns(plan: RunPlan, exchange: InTurns, round_: int) -> tuple[Phase, ...]:
    """Models come to those that work in a round, and leave them."""
    size = _turn_bytes(plan)
    active, before = (_asked(plan, exchange.active, each) for each in (round_ + 1, round_))
    if exchange.collected:
        collector = active[0]
        down = tuple((collector, rank) for rank in active if rank != collector)
        up = tuple((rank, collector) for rank in before if rank != collector)
        return Phase(down, (size,) * len(down)), Phase(up, (size,) * len(up))
    if exchange.to_all:
        handed = tuple((rank, to) for rank in before for to in active if to != rank)
        return (Phase(handed, (size,) * len(handed)),)
    handed = tuple(pair for pair in zip(before, active, strict=True) if pair[0] != pair[1])
    count = len(active)
    met = tuple(
        (rank, active[(at + step) % count])
        for at, rank in enumerate(active)
        for step in range(1, 1 + min(exchange.meets, count - 1))
    )
    return Phase(handed, (size,) * len(handed)), Phase(met, (size,) * len(met))


def _turn_bytes(plan: RunPlan) -> int:
    """The size of a model where learners work in turns."""
    return round(max(sent_bytes(plan, sort) / (sort.part or 1.0) for sort in messages_in(plan)))


def _control_of_learners(plan: RunPlan) -> int:
    return round(sum(sort.count for sort in messages_in(plan) if not sort.part) * len(plan.learners)) * CONTROL_BYTES


def _down_and_up(plan: RunPlan) -> tuple[int, int]:
    down, up = (sort for sort in messages_in(plan) if sort.part)
    return sent_bytes(plan, down), sent_bytes(plan, up)


def _clients(plan: RunPlan, exchange: WithServer) -> tuple[int, int]:
    """The number of answers that the server waits for in a round, and of clients that it asks."""
    wanted = part_of(len(plan.learners), exchange.participation)
    return wanted, min(len(plan.learners), part_of(wanted, exchange.over_selection))


def _asked(plan: RunPlan, count: int, round_: int) -> tuple[int, ...]:
    some = min(count, len(plan.learners))
    return tuple(sorted(stream(plan.seed, "estimate", str(round_)).sample(plan.learners, some)))
