"""The same plan in virtual time and with real processes: emulated time of a round, as in `scripts/fidelity`."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from tests.engines.quiet import skip_where_nobody_keeps_time
from tests.runtimes.local_runs import needs_network

SCRIPT = Path(__file__).parents[2] / "scripts" / "fidelity"


@pytest.fixture(scope="module")
def fidelity() -> ModuleType:
    """The script as a module."""
    loader = SourceFileLoader("fidelity_script", str(SCRIPT))
    spec = importlib.util.spec_from_loader("fidelity_script", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    loader.exec_module(module)
    return module


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
def test_a_round_takes_as_long_in_both(words: tuple[str, ...], fidelity: ModuleType, tmp_path: Path) -> None:
    (case,) = fidelity.chosen([*words, "lossless", "star", "cubic"])
    told: list[str] = []
    row = fidelity.run(case, tmp_path, None, [1], told.append, tries=4)
    skip_where_nobody_keeps_time(row.local.overloaded)
    assert row.holds, f"{row.off:+.1%}: {told}"


def test_what_is_further_off_than_its_gate_does_not_hold(fidelity: ModuleType) -> None:
    def row(loss: float, sim_s: float) -> bool:
        case = fidelity.Case("335kB", 50, loss=loss)
        return bool(fidelity.Row(case, fidelity.Rounds(1.0, sim_s, 9.0), fidelity.Rounds(1.0, 1.0, 1.0)).holds)

    assert [row(0.0, sim_s) for sim_s in (0.89, 0.91, 1.09, 1.11)] == [False, True, True, False]
    assert [row(0.01, sim_s) for sim_s in (0.74, 0.76, 1.24, 1.26)] == [False, True, True, False]


def test_words_choose_cases(fidelity: ModuleType) -> None:
    assert len(fidelity.chosen([])) == len(fidelity.CASES) == len({case.words for case in fidelity.CASES})
    wanted = {(size, rtt, kind) for size in ("20kB", "335kB", "10MB") for rtt in ("2ms", "50ms", "200ms")
              for kind in ("lossless", "lossy")}  # fmt: skip
    assert wanted <= {case.words[:3] for case in fidelity.CASES}
    assert {case.words[:2] for case in fidelity.chosen(["10MB", "335kB", "2ms"])} == {("10MB", "2ms"), ("335kB", "2ms")}
    with pytest.raises(ValueError, match="no case has the word 3MB"):
        fidelity.chosen(["3MB"])


def test_the_path_is_as_long_and_as_lossy_as_the_case_says(fidelity: ModuleType) -> None:
    from testbed.network.graph import expand
    from testbed.network.paths import compute_paths

    for case in (case for case in fidelity.CASES if case.shape in fidelity.SHAPES):
        plan = case.plan(1)
        paths = compute_paths(expand(plan.load_topology()))
        last = len(plan.nodes) - 1
        assert 2 * paths.latency_ms[0, last] == pytest.approx(case.rtt_ms)
        assert paths.loss[0, last] == pytest.approx(case.loss, rel=1e-4)


def test_a_valid_run_is_replaced_by_a_valid_one_only(fidelity: ModuleType, tmp_path: Path) -> None:
    """And what is merged is read again as it was, in the order of all cases."""
    late, early = fidelity.CASES[5], fidelity.CASES[2]

    def row(case: object, sim_s: float, local_s: float, *overloaded: str) -> object:
        local = fidelity.Rounds(1.0, local_s, local_s, overloaded, "2026-11-18", 0.5)
        return fidelity.Row(case, fidelity.Rounds(1.0, sim_s, sim_s), local)

    rows = fidelity.merged({}, row(late, 1.0, 1.0, "late"))
    rows = fidelity.merged(rows, row(late, 2.0, 2.0, "late again"))
    assert rows[late.words].local.median_s == 2.0
    rows = fidelity.merged(rows, row(late, 3.0, 3.0))
    rows = fidelity.merged(rows, row(late, 4.0, 4.0, "late"))
    assert (rows[late.words].sim.median_s, rows[late.words].local.median_s) == (4.0, 3.0)
    rows = fidelity.merged(rows, row(early, 5.0, 5.0))
    rows = fidelity.merged(rows, row(late, 6.0, 6.0))
    assert rows[late.words].local.median_s == 6.0
    assert list(rows) == [early.words, late.words]
    file = tmp_path / "rows.json"
    fidelity.write_whole(file, fidelity.document(rows.values()))
    assert fidelity.read_rows([file]) == rows
    assert [path.name for path in tmp_path.iterdir()] == ["rows.json"]


def test_all_seeds_of_a_case_have_the_same_graph(fidelity: ModuleType) -> None:
    """Between the sides of `bridge` three to nine pairs exchange models, as the graph falls."""
    for case in fidelity.chosen(["bridge", "wan16", "lossy"]):
        first, other = case.plan(1), case.plan(3)
        assert (first.seed, other.seed, other.experiment.seed) == (1, 3, 3)
        assert first.overlay == other.overlay
