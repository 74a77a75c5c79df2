"""The same plan in virtual time and with real processes: emulated time of a round, as in `scripts/fidelity`."""

from __future__ import annotations

from pathlib import Path

import pytest

from fidelities import cases, network, virtual_time
from tests.engines.quiet import skip_where_nobody_keeps_time
from tests.runtimes.local_runs import needs_network


@needs_network
@pytest.mark.alone
@pytest.mark.parametrize(
    "words",
    [
        ("20kB", "2ms"),
        ("335kB", "50ms", "100Mbps"),
        pytest.param(("335kB", "200ms", "100Mbps"), marks=pytest.mark.soaked),
    ],
    ids=lambda words: "-".join(words),
)
def test_a_round_takes_as_long_in_both(words: tuple[str, ...], tmp_path: Path) -> None:
    (case,) = cases.chosen([*words, "lossless", "star", "cubic"])
    told: list[str] = []
    row = virtual_time.run(case, tmp_path, None, [1], told.append, tries=4)
    skip_where_nobody_keeps_time(row.local.overloaded)
    assert row.holds, f"{row.off:+.1%}: {told}"


def test_what_is_further_off_than_its_gate_does_not_hold() -> None:
    def row(loss: float, sim_s: float) -> bool:
        case = cases.Case("335kB", 50, loss=loss)
        return bool(
            virtual_time.Row(case, virtual_time.Rounds(1.0, sim_s, 9.0), virtual_time.Rounds(1.0, 1.0, 1.0)).holds
        )

    assert [row(0.0, sim_s) for sim_s in (0.89, 0.91, 1.09, 1.11)] == [False, True, True, False]
    assert [row(0.01, sim_s) for sim_s in (0.74, 0.76, 1.24, 1.26)] == [False, True, True, False]


def test_words_choose_cases() -> None:
    assert len(cases.chosen([])) == len(cases.CASES) == len({case.words for case in cases.CASES})
    wanted = {(size, rtt, kind) for size in ("20kB", "335kB", "10MB") for rtt in ("2ms", "50ms", "200ms")
              for kind in ("lossless", "lossy")}  # fmt: skip
    assert wanted <= {case.words[:3] for case in cases.CASES}
    assert {case.words[:2] for case in cases.chosen(["10MB", "335kB", "2ms"])} == {("10MB", "2ms"), ("335kB", "2ms")}
    with pytest.raises(ValueError, match="no case has the word 3MB"):
        cases.chosen(["3MB"])


def test_the_path_is_as_long_and_as_lossy_as_the_case_says() -> None:
    from testbed.network.graph import expand
    from testbed.network.paths import compute_paths

    for case in (case for case in cases.CASES if case.shape in cases.SHAPES):
        plan = case.plan(1)
        paths = compute_paths(expand(plan.load_topology()))
        last = len(plan.nodes) - 1
        assert 2 * paths.latency_ms[0, last] == pytest.approx(case.rtt_ms)
        assert paths.loss[0, last] == pytest.approx(case.loss, rel=1e-4)


def test_a_valid_run_is_replaced_by_a_valid_one_only(tmp_path: Path) -> None:
    """And what is merged is read again as it was, in the order of all cases."""
    late, early = cases.CASES[5], cases.CASES[2]

    def row(case: cases.Case, sim_s: float, local_s: float, *overloaded: str) -> virtual_time.Row:
        local = virtual_time.Rounds(1.0, local_s, local_s, overloaded, "2026-11-18", 0.5)
        return virtual_time.Row(case, virtual_time.Rounds(1.0, sim_s, sim_s), local)

    rows = virtual_time.merged({}, row(late, 1.0, 1.0, "late"))
    rows = virtual_time.merged(rows, row(late, 2.0, 2.0, "late again"))
    assert rows[late.words].local.median_s == 2.0
    rows = virtual_time.merged(rows, row(late, 3.0, 3.0))
    rows = virtual_time.merged(rows, row(late, 4.0, 4.0, "late"))
    assert (rows[late.words].sim.median_s, rows[late.words].local.median_s) == (4.0, 3.0)
    rows = virtual_time.merged(rows, row(early, 5.0, 5.0))
    rows = virtual_time.merged(rows, row(late, 6.0, 6.0))
    assert rows[late.words].local.median_s == 6.0
    assert list(rows) == [early.words, late.words]
    file = tmp_path / "rows.json"
    virtual_time.write_whole(file, virtual_time.document(rows.values()))
    assert virtual_time.read_rows([file]) == rows
    assert [path.name for path in tmp_path.iterdir()] == ["rows.json"]


def test_all_seeds_of_a_case_have_the_same_graph() -> None:
    """Between the sides of `bridge` three to nine pairs exchange models, as the graph falls."""
    for case in cases.chosen(["bridge", "wan16", "lossy"]):
        first, other = case.plan(1), case.plan(3)
        assert (first.seed, other.seed, other.experiment.seed) == (1, 3, 3)
        assert first.overlay == other.overlay


def test_the_networks_pairs_are_those_that_are_measured() -> None:
    """Pairs are told apart by their order alone."""
    pairs = network.probed_pairs()
    assert [pair.there.latency_s * 1e3 for pair in pairs.delays] == pytest.approx([0.5, 1, 5, 25, 100, 5])
    assert [pair.there.jitter_s * 1e3 for pair in pairs.delays] == pytest.approx([0, 0, 0, 0, 0, 1])
    assert [pair.there.loss for pair in pairs.lossy] == pytest.approx([0.001, 0.01, 0.05])
    assert {pair.there.rate_bps for pair in pairs.busy} == {25e6}
    every = (*pairs.delays, *pairs.lossy, *pairs.busy)
    assert len({rank for pair in every for rank in (pair.origin, pair.dest)}) == 2 * len(every)


def test_the_interval_of_a_share_has_it_in_19_of_20_cases() -> None:
    assert network.confidence(0, 100)[0] == pytest.approx(0.0, abs=1e-12)
    assert network.confidence(10, 100) == pytest.approx((0.0552, 0.1744), abs=1e-4)  # Wilson 1927, as in textbooks
    assert network.confidence(900, 90_000) == pytest.approx((0.00937, 0.01067), abs=1e-5)


def test_a_table_has_a_row_for_what_was_asked_and_a_column_for_every_plane_and_condition() -> None:
    def found(plane: str, condition: str, what: str, told: str) -> network.Found:
        return network.Found(plane, condition, what, "5 ms", {}, told)

    fidelities = [
        network.Fidelity("native", (found("native", "idle", "delay", "a"), found("native", "busy", "delay", "b")), ()),
        network.Fidelity("python", (found("python", "idle", "delay", "c"), found("python", "idle", "TCP", "d")), ()),
    ]
    delays, _, rates = network.tables(fidelities).split("\n\n")
    assert delays.splitlines() == [
        "| asked | native, idle | native, busy | python, idle |",
        "| --- | --- | --- | --- |",
        "| 5 ms | a | b | c |",
    ]
    assert rates.splitlines()[2] == "| 5 ms | d |"
