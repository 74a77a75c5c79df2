"""Random numbers of the network models: as specified to the bit, and with the distributions that they are to have."""

from __future__ import annotations

import math
import re
import runpy
from collections import Counter
from collections.abc import Callable
from itertools import islice, pairwise
from pathlib import Path
from statistics import NormalDist, correlation, fmean, pstdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.network import draws
from testbed.network.draws import normal, normals, times_in_a_row, uniform, uniforms, word
from testbed.network.flows.draws import Draws
from testbed.network.normal_table import NORMAL, OCTAVES, SEGMENTS, UNIT
from testbed.network.packets.wire import FARTHEST_JITTER
from testbed.seeds import derive
from tests.examples import examples

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "internals" / "random-numbers.md").read_text()
VECTORS = re.findall(r"^\| (\d+) \| (\d+) \| 0x([0-9A-F]{16}) \| (\d+) \| (-?\d+) \|$", PAGE, re.MULTILINE)
KEYS = st.integers(0, 2**64 - 1)
MANY = 200_000


def of_stream(draw: Callable[[], float], count: int = MANY) -> list[float]:
    return list(islice(iter(draw, None), count))


@pytest.mark.parametrize(("key", "number", "bits", "share", "size"), VECTORS)
def test_the_vectors_of_the_specification(key: str, number: str, bits: str, share: str, size: str) -> None:
    found = word(int(key), int(number))
    assert found == int(bits, 16)
    assert uniform(found) == int(share) / 2**53
    assert normal(found) == int(size) / 2**32


def test_the_first_vectors_are_those_that_are_published() -> None:
    """For SplitMix64, by others."""
    assert len(VECTORS) == 16
    assert [word(0, number) for number in (1, 2, 3)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [word(1234567, number) for number in range(1, 6)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_the_key_of_a_stream_is_the_one_of_the_specification() -> None:
    assert str(derive(7, "packets", "loss", "a>b")) in PAGE


@settings(max_examples=examples(30), deadline=None)
@given(KEYS)
def test_numbers_in_order_are_the_numbered_ones(key: int) -> None:
    words = [word(key, number) for number in range(1, 1201)]
    assert of_stream(uniforms(key), 1200) == [uniform(each) for each in words]
    assert of_stream(normals(key), 1200) == [normal(each) for each in words]


@given(st.integers(0, 2**64 - 1))
def test_every_word_gives_a_number(bits: int) -> None:
    assert 0.0 < uniform(bits) < 1.0
    assert abs(normal(bits)) <= NORMAL[0] * UNIT < FARTHEST_JITTER
    assert normal(bits ^ 1 << 63) == -normal(bits)


def test_the_table_is_what_its_formula_gives(tmp_path: Path) -> None:
    """But for the last digit, which the library of some machine may round differently."""
    assert (len(NORMAL), OCTAVES, SEGMENTS, UNIT) == (449, 28, 16, 2.0**-32)
    for place, size in enumerate(NORMAL):
        share = 2.0 ** (place // 16 - 28) * (1 + place % 16 / 16)
        assert abs(size + NormalDist().inv_cdf(share / 2) * 2**32) <= 1
    written = tmp_path / "normal_table.py"
    runpy.run_path(str(ROOT / "scripts" / "normal-table"))["main"](written)
    there = re.compile(r"\d+").sub("", (ROOT / "testbed" / "network" / "normal_table.py").read_text())
    assert re.compile(r"\d+").sub("", written.read_text()) == there


def test_uniform_numbers_are_evenly_spread() -> None:
    found = of_stream(uniforms(1))
    assert abs(fmean(found) - 0.5) < 4 * math.sqrt(1 / 12 / MANY)
    counts = Counter(int(each * 100) for each in found)
    squares = sum((counts[cell] - MANY / 100) ** 2 / (MANY / 100) for cell in range(100))
    assert 60 < squares < 149, "chi square of 99 degrees of freedom, one in a thousand on either side"
    assert abs(correlation(found[:-1], found[1:])) < 4 / math.sqrt(MANY)


def test_normal_numbers_have_the_moments_of_the_normal_distribution() -> None:
    found = of_stream(normals(1))
    assert abs(fmean(found)) < 4 / math.sqrt(MANY)
    assert abs(pstdev(found) - 1.0) < 4 / math.sqrt(2 * MANY)
    assert abs(fmean(each**3 for each in found)) < 4 * math.sqrt(15 / MANY)
    assert abs(fmean(each**4 for each in found) - 3.0) < 4 * math.sqrt(96 / MANY)
    assert abs(correlation(found[:-1], found[1:])) < 4 / math.sqrt(MANY)


@pytest.mark.parametrize("bound", [-4.0, -3.0, -2.0, -1.0, -0.3, 0.0, 0.1, 0.7, 1.5, 2.5, 3.5, 4.0])
def test_as_many_normal_numbers_are_below_a_bound_as_should_be(bound: float) -> None:
    share = NormalDist().cdf(bound)
    below = sum(each < bound for each in of_stream(normals(2)))
    assert abs(below - share * MANY) < 4 * math.sqrt(share * (1 - share) * MANY) + 1


def test_normal_numbers_are_quantiles_of_their_words() -> None:
    """Everywhere, the far tails included: the table's straight lines are off by 0.0002 at most."""
    for place in range(1, 4000):
        share = 2.0 ** (-place / 150)
        bits = int(share * 2**52) << 11 | 1 << 10
        exact = -NormalDist().inv_cdf(((bits << 1) / 2**64) / 2)
        assert abs(normal(bits) - exact) < 0.0003


def test_streams_share_nothing() -> None:
    names = [derive(1, "packets", what, f"a>{dest}") for what in ("loss", "jitter") for dest in "bc"]
    for one, other in pairwise([*names, *range(4), *(1 << bit for bit in (31, 63))]):
        assert abs(correlation(of_stream(uniforms(one), 5000), of_stream(uniforms(other), 5000))) < 4 / math.sqrt(5000)


def test_a_stream_begins_in_short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are thousands of links, and most draw little."""
    worked_out = []
    block = draws._uniform_block

    def counted(words: draws.Words) -> draws.Floats:
        worked_out.append(len(words))
        return block(words)

    monkeypatch.setattr(draws, "_uniform_block", counted)
    draw = uniforms(1)
    assert worked_out == []
    for _ in range(16):
        draw()
    assert worked_out == [16]
    of_stream(draw, 1400)
    assert worked_out == [16, 32, 64, 128, 256, 512, 512]


def in_a_row(chance: float, draw: float) -> float:
    times, power = 0, chance
    while power > draw:
        times, power = times + 1, power * chance
    return times


@given(st.floats(0.0, 0.999), st.floats(2.0**-53, 1 - 2.0**-53))
def test_how_often_in_a_row_is_a_power_of_the_chance(chance: float, draw: float) -> None:
    times = times_in_a_row(chance, draw)
    assert abs(times - in_a_row(chance, draw)) <= (chance**times == pytest.approx(draw, rel=1e-9))


def test_rare_and_certain_things() -> None:
    assert times_in_a_row(1.0, 0.5) == math.inf
    assert times_in_a_row(0.0, 0.5) == 0
    assert times_in_a_row(1.0 - 2.0**-53, 0.5) == pytest.approx(math.log(2) * 2**53, rel=1e-6)


@pytest.mark.parametrize("loss", [0.001, 0.1, 0.7])
def test_segments_are_lost_at_their_rate(loss: float) -> None:
    made = Draws(1, 0, 1, 0)
    count = 20_000
    through = [made.segments_until_loss(loss) for _ in range(count)]
    whole = [math.floor(each) for each in through]
    mean, sd = (1 - loss) / loss, math.sqrt(1 - loss) / loss
    assert abs(fmean(whole) - mean) < 4 * sd / math.sqrt(count)
    assert abs(sum(each == 0 for each in whole) - loss * count) < 4 * math.sqrt(loss * (1 - loss) * count)
    assert abs(fmean(each % 1.0 for each in through) - 0.5) < 4 * math.sqrt(1 / 12 / count)


@pytest.mark.parametrize("loss", [0.01, 0.3, 0.9])
def test_what_fails_again_and_again_does_so_at_its_rate(loss: float) -> None:
    made = Draws(1, 0, 1, 0)
    count = 20_000
    found = [made.failures(loss, 1000) for _ in range(count)]
    assert abs(fmean(found) - loss / (1 - loss)) < 4 * math.sqrt(loss) / (1 - loss) / math.sqrt(count)
    assert max(made.failures(0.999999, 15) for _ in range(10)) == 15
    assert made.failures(0.0, 15) == 0


def test_the_jitter_of_a_connection_is_numbered_by_its_messages() -> None:
    made = Draws(1, 0, 1, 0)
    found = [made.normal(number) for number in range(20_000)]
    assert found == [Draws(1, 0, 1, 0).normal(number) for number in range(20_000)]
    assert abs(fmean(found)) < 4 / math.sqrt(20_000)
    assert abs(pstdev(found) - 1.0) < 4 / math.sqrt(40_000)
    assert found[:100] != [Draws(1, 0, 1, 1).normal(number) for number in range(100)]
