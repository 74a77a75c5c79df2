"""The same plan in virtual time and with real processes: emulated time of a round, as in `scripts/fidelity`."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

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
@pytest.mark.parametrize(
    "words",
    [("20kB", "2ms"), ("335kB", "50ms", "100Mbps"), ("335kB", "200ms", "100Mbps")],
    ids=lambda words: "-".join(words),
)
def test_a_round_takes_as_long_in_both(words: tuple[str, ...], fidelity: ModuleType, tmp_path: Path) -> None:
    (case,) = fidelity.chosen([*words, "lossless", "star", "cubic"])
    told: list[str] = []
    row = fidelity.run(case, tmp_path, None, [1], told.append, tries=4)
    if row.local.overloaded:
        pytest.skip(f"this machine cannot keep up now: {row.local.overloaded[0]}")
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
