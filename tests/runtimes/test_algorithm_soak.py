"""Every built-in algorithm in networks, with options and faults, that are drawn from seeds.

`scripts/soak algorithms` tries hundreds of seeds of each.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from soaks.algorithm_runs.attempt import apart, in_sim, locally
from soaks.algorithm_runs.story import drawn
from soaks.algorithm_runs.verdict import wrong_in
from soaks.algorithm_runs.witness import Witness
from testbed.catalogue.algorithms import ALGORITHMS
from testbed.records import Count, End, Event, line
from tests.runtimes.local_runs import needs_network
from tests.runtimes.sim_runs import plan_of, run, star

SEEDS = range(10)
_WRONG = """
from testbed.node.algorithm import Algorithm


class Wrong(Algorithm):
    async def run(self, node):
        async for round_ in node.rounds():
            await node.train()
            number = [0, {number}]
            node.send(node.others, self.sharing.encode(node.model, round_).with_fields(number=number))
            received = await node.gather(node.others, round_)
            self.sharing.mean(node.model, received{more})
"""


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_drawn_run_goes_well(algorithm: str, seed: int, tmp_path: Path) -> None:
    verdict = in_sim(drawn(algorithm, seed), tmp_path)
    assert verdict.is_good, verdict.figures


@needs_network
@pytest.mark.processes
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_same_draw_goes_well_with_real_processes(algorithm: str, tmp_path: Path) -> None:
    verdict = locally(drawn(algorithm, 0), tmp_path)
    assert verdict.is_good, verdict.figures


@pytest.mark.parametrize(
    ("number", "more", "words"),
    [
        ("round_", "", None),
        ("round_", " + received[:1]", "averages `model` of round 0 from 1 2 times"),
        ("7", "", "averages `model` of round 1 from 1 with the number [0, 7] again"),
    ],
)
def test_what_is_averaged_twice_is_seen(number: str, more: str, words: str | None, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(_WRONG.format(number=number, more=more))
    witness = Witness()
    with witness.watching():
        run(plan_of(star(3), algorithm=f"{tmp_path / 'own.py'}:Wrong"), tmp_path)
    wrong = witness.conclude()
    assert (f"node 0 {words}" in wrong) if words else wrong == []
    assert witness.averaged > 0


def test_a_message_that_comes_twice_is_seen(tmp_path: Path) -> None:
    witness = Witness()
    with witness.watching():
        run(plan_of(star(3)), tmp_path)
    assert sorted(witness.posted.elements()) == sorted(witness.arrived.elements())
    message = next(iter(witness.arrived))
    witness.arrived[message] += 1
    assert [each.split(" a message")[0] for each in witness.conclude()] == ["2 times"]


def test_a_model_that_is_not_finite_is_seen(tmp_path: Path) -> None:
    witness = Witness()
    with witness.watching():
        run(plan_of(star(2)), tmp_path)
    witness.lives[0].node.model[0] = float("nan")
    assert witness.conclude() == ["the model of node 0 is not finite"]


def test_what_journals_tell_is_judged(tmp_path: Path) -> None:
    story = next(each for seed in range(99) if not (each := drawn("dpsgd", seed)).network.events and not each.may_miss)
    plan = story.plan()
    directory, outcome = run(plan, tmp_path)
    assert list(wrong_in(story, plan, directory, outcome)) == []
    node = directory.node("node.0")
    sound = node.journal.read_bytes()
    for records, words in (
        ([Event(1.0, "never-taken", "model: 3")], "never-taken: model: 3"),
        ([Event(1.0, "refused", "foreign-protocol: 1 so far")], "refused: foreign-protocol"),
        ([End(1.0, "finished", 1, 1, Count(), Count(payload=10**9, messages=1))], "bytes were received"),
    ):
        node.journal.write_bytes(sound + b"".join(map(line, records)))
        assert any(words in each for each in wrong_in(story, plan, directory, outcome))
    node.journal.write_bytes(sound.replace(b"}\n{", b"}{", 1))
    assert any("cannot be read" in each for each in wrong_in(story, plan, directory, outcome))
    node.journal.write_bytes(sound)
    node.log.write_text("Traceback (most recent call last):\n")
    assert list(wrong_in(story, plan, directory, outcome)) == ["a traceback in the log of node.0"]


def test_a_run_that_hangs_is_ended_and_told(tmp_path: Path) -> None:
    began_s = time.monotonic()
    assert apart(lambda: time.sleep(60), tmp_path / "verdict", 0.2).word == "hung"
    assert time.monotonic() - began_s < 30


def test_a_run_that_goes_round_in_circles_is_ended_and_told(tmp_path: Path) -> None:
    def circle() -> None:
        while True:
            pass

    assert apart(circle, tmp_path / "verdict", 250, computes_s=1).word == "hung"


def test_a_run_that_raises_is_told(tmp_path: Path) -> None:
    verdict = apart(lambda: 1 / 0, tmp_path / "verdict", 60)
    assert (verdict.is_good, verdict.word) == (False, "raised")
    assert "ZeroDivisionError" in str(verdict.figures)


def test_a_seed_is_always_the_same_story() -> None:
    assert drawn("swift", 3) == drawn("swift", 3)
    assert drawn("swift", 3).text != drawn("swift", 4).text
