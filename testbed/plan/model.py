"""The data of a plan: plain and frozen, the same in memory and as JSON.

Pure. A learner reads only its own `NodePlan`, which stays small however many nodes there
are, unless the algorithm computes with the whole overlay.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from testbed.experiment.language import Experiment
from testbed.topologies.load import load_bytes
from testbed.topologies.model import Topology
from testbed.topologies.source import Form
from testbed.topologies.write_yaml import to_yaml

if TYPE_CHECKING:
    from testbed.network.graph import Network

SCHEMA = 1
"""Raised when a reader of the old form would misunderstand the new one."""

LEARNER, SERVER, SAMPLER = "learner", "server", "sampler"
Role = Literal["learner", "server", "sampler"]


LARGEST_TIME_SCALE = 1000.0
TimeScale = Annotated[
    float,
    Field(
        ge=1.0, le=LARGEST_TIME_SCALE, description="How many times longer everything takes in real time; 1: no longer."
    ),
]
"""Seconds of real time per emulated second; 1 if a plan does not have it."""


class Part(BaseModel):
    """Base of everything in a plan."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class PlannedNode(Part):
    """One node and what it does."""

    rank: int = Field(ge=0, description="Position among all nodes.")
    name: str
    service: str
    address: str = Field(description="In the emulated network.")
    image: str
    roles: tuple[Role, ...]
    learner: int | None = Field(ge=0, description="Position among the learners; None for a node that does not learn.")
    pace: tuple[tuple[float, float], ...] = Field(
        min_length=1,
        description="Pairs of time in seconds and factor: from that time on, a step takes that many times longer.",
    )


class PlannedViews(Part):
    """Peer sampling without a sampler: nodes keep views of some others, and shuffle them (`cyclon`)."""

    size: int = Field(ge=0, description="The most entries of a view.")
    shuffle: int = Field(ge=0, description="The most entries of a message.")
    period_s: float = Field(gt=0.0, description="The time between two shuffles that a node begins.")


class PlannedOverlay(Part):
    """The planned overlay: the graph of nodes that exchange models."""

    kind: Literal["ring", "regular", "full", "small-world", "star", "file", "network", "cyclon", "code"]
    degree: int | None = Field(ge=0)
    dynamic: bool
    peers: Literal["seed", "sampler"]
    sampler: int | None = Field(description="Rank of the node with the peer sampler.")
    neighbours: tuple[tuple[int, ...], ...] | None = Field(
        description="Ranks, ascending, by position among the learners; None when every round has its own graph."
    )
    rewire: float = Field(ge=0.0, le=1.0)
    code: str | None
    views: PlannedViews | None = Field(None, description="For cyclon.")


class Asked(Part):
    """Settings as the experiment asks for them; the plan's own values are those that the run uses."""

    ms_per_step: float = Field(gt=0.0, le=1e9, description="Longer in the run if the machine cannot train as fast.")
    congestion: Literal["cubic", "reno"] = Field(description="A time scale above 1 replaces cubic by reno.")


class RuntimeFacts(Part):
    """The facts of a runtime that readers of results need."""

    is_virtual: bool = Field(description="Emulated time was virtual: no process could be late.")
    is_judged: bool = Field(description="Control writes the run's health to summary.json, as the last file.")


class Declared(Part):
    """Facts that an experiment's own algorithm and sharing declare, for estimates; None if undeclared."""

    waits: bool | None = Field(description="Every node waits for models of others in every round.")
    sends_to: int | Literal["neighbours"] | None = Field(description="The number of neighbours that a node sends to.")
    message_bytes: int | None = Field(ge=0, description="The size of a sent model, without a header.")


class Versioned(Part):
    """Base of the classes with files of their own. The version's key is `schema`, a name that pydantic itself uses."""

    model_config = ConfigDict(populate_by_name=True)

    schema_version: int = Field(SCHEMA, alias="schema")

    def document(self) -> dict[str, JsonValue]:
        """The JSON value, with keys in a fixed order; `model_validate` reads it."""
        return {"schema": self.schema_version, **self.model_dump(mode="json", exclude={"schema_version"})}


How = Literal["asked", "default", "fallback"]


class RuntimeChoice(Part):
    """Why a run uses its runtime. Not a setting: repetitions may differ in it."""

    how: How = Field(description="`fallback`: virtual time, because this machine denies what the default needs.")
    why: str = Field(description="The reason in words; empty if an option asked for the runtime.")


class DataPlaneChoice(Part):
    """Which of the fabric's data planes carries the packets. Not a setting: all of them give the same schedule."""

    asked: Literal["auto", "native", "python"] = Field(description="What `--fabric` asked for.")
    used: Literal["native", "python"] | None = Field(
        description="The chosen one; None if the fabric chooses, since the image was not there."
    )


class RunPlan(Versioned):
    """One run."""

    run_id: str
    seed: int = Field(ge=0)
    runtime: str
    engine: str
    versions: dict[str, str]
    inputs: dict[str, str] = Field(description="SHA-256 of the files that the plan was made from, by name.")
    topology_name: str
    topology: dict[str, JsonValue] = Field(description="The topology, as in its YAML form.")
    nodes: tuple[PlannedNode, ...]
    overlay: PlannedOverlay
    experiment: Experiment
    parameters: int | None = Field(ge=1)
    samples: tuple[Annotated[int, Field(ge=1)], ...] | None = Field(
        description="Size of each learner's part of the data."
    )
    samples_estimated: bool = Field(
        default=False, description="Planned before the data was there: sizes of parts are estimates."
    )
    ms_per_step: float = Field(gt=0.0, le=1e9)
    time_scale: TimeScale = 1.0
    server: int | None = Field(description="Rank of the node that serves.")
    asked: Asked | None = Field(None, description="None in plans of older versions.")
    runtime_facts: RuntimeFacts | None = Field(None, description="None in plans of older versions.")
    declared: Declared | None = Field(None, description="None if all code is built in, or was not asked.")
    runtime_choice: RuntimeChoice | None = Field(None, description="How the runtime was chosen; None if unknown.")
    data_plane: DataPlaneChoice | None = Field(None, description="None without a fabric, and in older plans.")

    def load_topology(self) -> Topology:
        """The parsed topology; it is parsed once, and copies of the plan share the result."""
        return self._parsed_topology

    def with_parsed(self, topology: Topology) -> Self:
        """The same plan with the topology that it was made from, so that it need not be parsed."""
        self.__dict__["_parsed_topology"] = topology
        return self

    def expanded_network(self) -> Network:
        """The topology's links as arrays, before any event; expanded once."""
        return self._expanded_network

    @cached_property
    def _parsed_topology(self) -> Topology:
        text = yaml.dump(self.topology, Dumper=_DUMPER, sort_keys=False, allow_unicode=True)
        return load_bytes(text.encode(), Form.YAML, self.topology_name).require()

    @cached_property
    def _expanded_network(self) -> Network:
        from testbed.network.graph import expand  # needs numpy, which reading a plan does not

        return expand(self.load_topology())

    @cached_property
    def learners(self) -> tuple[int, ...]:
        """The ranks of the learners."""
        return tuple(node.rank for node in self.nodes if node.learner is not None)


class NodePlan(Versioned):
    """One node's share of a plan."""

    seed: int = Field(ge=0)
    node: PlannedNode
    ranks: tuple[str, ...] = Field(description="Names, by rank.")
    addresses: tuple[str, ...] = Field(description="By rank.")
    learners: tuple[int, ...] = Field(description="Ranks.")
    neighbours: tuple[int, ...] | None = Field(
        description="The node's neighbours, as ranks; None if they change every round."
    )
    overlay: PlannedOverlay = Field(
        description="Without the table of neighbours, unless the algorithm computes with the whole graph."
    )
    experiment: Experiment
    ms_per_step: float = Field(gt=0.0, le=1e9)
    time_scale: TimeScale = 1.0
    server: int | None
    parameters: int | None = Field(ge=1)


_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def as_json(topology: Topology) -> dict[str, JsonValue]:
    """The topology's YAML form as a JSON value."""
    document: dict[str, JsonValue] = yaml.load(to_yaml(topology), Loader=_LOADER)  # noqa: S506 - a safe loader
    return document
