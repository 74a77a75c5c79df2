"""Which plans are run in virtual time and with real processes. Takes words, gives cases and their plans."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from testbed.experiment.language import Experiment
from testbed.plan.make import make_plan
from testbed.plan.model import RunPlan
from testbed.topologies.bundled import BUNDLED
from testbed.topologies.load import load, load_bytes
from testbed.topologies.model import Topology
from testbed.topologies.source import Form

LOSSLESS_GATE, LOSSY_GATE = 0.10, 0.25
HIDDEN: dict[str, list[int]] = {"10kB": [34], "20kB": [70], "100kB": [352], "335kB": [1180], "10MB": [1546, 1546]}
"""Layers of a perceptron with 60 inputs and 10 outputs, by the size of its parameters."""
PARAMETERS = {"10kB": 2_424, "20kB": 4_980, "100kB": 25_002, "335kB": 83_790, "10MB": 2_501_438}
STEP_MS = {"10kB": 20, "20kB": 20, "100kB": 20, "335kB": 20, "10MB": 100}

STAR = """
services: {{n: {{replicas: {nodes}}}}}
bridges: [hub]
links:
  - {{from: n, to: hub, latency: {quarter_ms}ms, rate: {rate}, loss: {half_loss}}}
"""
BRIDGE = """
services: {{a: {{replicas: 3}}, b: {{replicas: 3}}}}
bridges: [x, y]
links:
  - {{from: a, to: x, latency: {tenth_ms}ms, rate: {rate}}}
  - {{from: b, to: y, latency: {tenth_ms}ms, rate: {rate}}}
  - {{from: x, to: y, latency: {third_ms}ms, rate: {rate}, loss: {loss}}}
"""
RING: dict[str, object] = {"kind": "ring"}
REGULAR: dict[str, object] = {"kind": "regular", "degree": 3}
SHAPES = {
    "star": (STAR, 4, RING),
    "six": (STAR, 6, REGULAR),
    "eight": (STAR, 8, REGULAR),
    "full": (STAR, 6, {"kind": "full"}),
    "pair": (STAR, 2, {"kind": "full"}),
    "bridge": (BRIDGE, 6, REGULAR),
    "bridge-ring": (BRIDGE, 6, RING),
}
"""Topology, nodes, overlay."""
BUNDLED_SHAPE = "wan16"
"""The bundled topology of that name, with the overlay that an experiment has when it names none."""


@dataclass(frozen=True)
class Case:
    """One row: what is sent, over which network."""

    size: str
    rtt_ms: float
    """0: the topology's own."""
    loss: float = 0.0
    """Of the path; of a typical one where they differ."""
    rate: str = "20Mbps"
    shape: str = "star"
    """One of `SHAPES`, or `BUNDLED_SHAPE`."""
    congestion: str = "cubic"
    rounds: int = 16
    is_fitted: bool = True
    """Was looked at when the model got its constants."""

    @property
    def words(self) -> tuple[str, ...]:
        """One of each kind, in the order of the columns."""
        kind = "lossy" if self.loss else "lossless"
        round_trip = f"{self.rtt_ms:g}ms" if self.rtt_ms else "mixed"
        return self.size, round_trip, kind, self.rate, self.shape, self.congestion

    @property
    def gate(self) -> float:
        return LOSSY_GATE if self.loss else LOSSLESS_GATE

    def topology(self) -> Topology:
        if self.shape == BUNDLED_SHAPE:
            return load(str(next(each.path for each in BUNDLED if each.file_name == "wan16.xml"))).require()
        text, nodes, _ = SHAPES[self.shape]
        filled = text.format(
            nodes=nodes,
            quarter_ms=self.rtt_ms / 4,
            tenth_ms=self.rtt_ms / 20,
            third_ms=self.rtt_ms * 0.4,
            rate=self.rate,
            half_loss=round(1.0 - (1.0 - self.loss) ** 0.5, 8),
            loss=self.loss,
        )
        return load_bytes(filled.encode(), Form.YAML, "fidelity.yaml").require()

    def plan(self, seed: int) -> RunPlan:
        """The graph over the nodes is that of seed 1 with every seed: it decides how many messages share a link."""
        experiment = Experiment.model_validate(
            {
                "topology": "fidelity.yaml",
                **({} if self.shape == BUNDLED_SHAPE else {"overlay": SHAPES[self.shape][2]}),
                "algorithm": {"name": "dpsgd"},
                "data": {"name": "synthetic", "samples": 400, "users": 10, "partition": {"kind": "iid"}},
                "model": {"name": "mlp", "hidden": HIDDEN[self.size]},
                "training": {"lr": 0.01, "batch": 8, "steps": 1},
                "stop": {"rounds": self.rounds},
                "evaluation": {"mode": "none"},
                "compute": {"mode": "paced", "ms_per_step": STEP_MS[self.size]},
                "network": {"congestion": self.congestion, "idle_restart": True},
                "seed": 1,
            }
        )
        plan = make_plan(
            experiment,
            self.topology(),
            run_id="fidelity",
            runtime="sim",
            parameters=PARAMETERS[self.size],
            nominal_ms_per_step=1.0,
        )
        seeded = plan.experiment.model_copy(update={"seed": seed})
        return plan.model_copy(update={"seed": seed, "experiment": seeded})


def _all_cases() -> Iterator[Case]:
    for rtt_ms in (2, 50, 200):
        yield Case("20kB", rtt_ms, rate="10Mbps", rounds=31)
    for rtt_ms, loss in itertools.product((50, 200), (0.0, 0.01)):  # seven segments: less than a first window
        yield Case("10kB", rtt_ms, rate="10Mbps", loss=loss, rounds=31)
    for rate, rtt_ms in itertools.product(("20Mbps", "100Mbps"), (2, 50, 200)):
        yield Case("335kB", rtt_ms, rate=rate, rounds=21)
    for rtt_ms in (2, 50, 200):
        yield Case("10MB", rtt_ms, rounds=7)
    yield Case("10MB", 50, rate="100Mbps", rounds=10)
    yield Case("335kB", 50, shape="six", rounds=21)
    yield Case("335kB", 50, shape="bridge", rounds=16)
    yield Case("335kB", 50, congestion="reno", rounds=21)
    for rtt_ms in (2, 50, 200):
        yield Case("20kB", rtt_ms, rate="10Mbps", loss=0.01, rounds=31)
    for rtt_ms in (2, 50, 200):
        yield Case("335kB", rtt_ms, loss=0.01, rounds=21)
    for rtt_ms in (2, 50, 200):
        yield Case("10MB", rtt_ms, loss=0.005, rounds=5)
    yield Case("335kB", 50, loss=0.005, shape="bridge", rounds=16)
    yield Case("335kB", 50, loss=0.005, congestion="reno", rounds=21)
    yield Case("335kB", 0, loss=0.0002, rate="mixed", shape=BUNDLED_SHAPE, rounds=6, is_fitted=False)
    yield Case("100kB", 30, rate="50Mbps", shape="eight", rounds=21, is_fitted=False)
    yield Case("335kB", 50, shape="bridge-ring", rounds=16, is_fitted=False)
    yield Case("335kB", 50, shape="full", rounds=16, is_fitted=False)
    yield Case("335kB", 50, shape="pair", rounds=16, is_fitted=False)
    yield Case("10MB", 50, shape="pair", rounds=6, is_fitted=False)


CASES = tuple(_all_cases())


def chosen(words: Sequence[str]) -> list[Case]:
    """Cases that have one of the words of every kind that any word is of; raises ValueError for a word of none."""
    kinds = [sorted({case.words[kind] for case in CASES}) for kind in range(len(CASES[0].words))]
    for word in words:
        if not any(word in kind for kind in kinds):
            raise ValueError(f"no case has the word {word}; there are: {' '.join(itertools.chain(*kinds))}")
    wanted = [set(kind) & set(words) or set(kind) for kind in kinds]
    return [case for case in CASES if all(word in kind for word, kind in zip(case.words, wanted, strict=True))]
