"""The table that compares algorithms: what each waits for, sends, remembers and loses.

Takes facts, gives cells of text; pure. `docs/algorithms.md` and `testbed algorithms` show it.
"""

from __future__ import annotations

from collections.abc import Iterable

from testbed.catalogue.algorithm_facts import AlgorithmFacts, OutboxFacts, Paper
from testbed.catalogue.exchanges import Sender, Sent

COLUMNS = (
    "algorithm",
    "waits for",
    "messages a round",
    "payload a round",
    "remembers",
    "a crash costs",
    "outbox",
    "paper",
)
USUAL_LEARNERS, USUAL_DEGREE = 16, 5
"""The network for which messages are counted where no other is named."""


def comparison(
    entries: Iterable[AlgorithmFacts], learners: int = USUAL_LEARNERS, degree: int = USUAL_DEGREE
) -> list[tuple[str, ...]]:
    """A row for each algorithm with its default options; `COLUMNS` has the titles."""
    found: list[tuple[str, ...]] = []
    for facts in entries:
        sorts = usual_messages(facts, learners, degree)
        found.append(
            (
                facts.name,
                facts.waits_for,
                messages_in_words(sorts),
                models_in_words(sorts),
                facts.remembers,
                facts.crash_costs,
                outbox_in_words(facts.outbox),
                paper_in_words(facts.paper),
            )
        )
    return found


def usual_messages(facts: AlgorithmFacts, learners: int, degree: int) -> tuple[Sent, ...]:
    """The messages of a round with the default options; no learner has more neighbours than there are others."""
    return facts.messages(facts.usual_options, learners, min(degree, learners - 1))


def messages_in_words(sorts: Iterable[Sent]) -> str:
    """How many messages of each sort a learner sends, or the server."""
    return "; ".join(f"{_count(sort)} × {sort.what}{_by(sort)}" for sort in sorts)


def models_in_words(sorts: Iterable[Sent]) -> str:
    """How many models' values a learner sends in all, and the server."""
    by = {sender: sum(sort.count * sort.part for sort in sorts if sort.by is sender) for sender in Sender}
    of_server = f"; the server {_number(by[Sender.SERVER])}" if by[Sender.SERVER] else ""
    models = by[Sender.LEARNER]
    return f"{_number(models)} {'model' if models == 1 else 'models'}{of_server}"


def outbox_in_words(outbox: OutboxFacts) -> str:
    """The policy, and the limit if there is one."""
    return outbox.policy + ("" if outbox.in_flight is None else f", {outbox.in_flight} under way")


def paper_in_words(paper: Paper) -> str:
    """Where an algorithm was published."""
    arxiv = "" if paper.arxiv is None else f", arXiv {paper.arxiv}"
    return f"{paper.authors}, {paper.title}, {paper.venue} {paper.year}{arxiv}"


def markdown(rows: Iterable[tuple[str, ...]]) -> str:
    """The table as the documentation has it."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
    for name, *cells in rows:
        lines.append(f"| {' | '.join((f'`{name}`', *cells))} |")
    return "\n".join(lines) + "\n"


def _count(sort: Sent) -> str:
    return ("about " if sort.is_drawn else "") + _number(sort.count)


def _by(sort: Sent) -> str:
    return " (the server)" if sort.by is Sender.SERVER else ""


def _number(value: float) -> str:
    return f"{value:.3g}"
