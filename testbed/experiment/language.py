"""The language of experiments: all keys, their types and their defaults.

Pure. These classes are the only description of the language: files, options and plans are validated by them, and the
JSON Schema is made from them. `model_dump(mode="json")` validates again to an equal model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, ModelWrapValidatorHandler, ValidationError, model_validator

from testbed.catalogue.algorithm_facts import OutboxPolicy
from testbed.catalogue.algorithms import ALGORITHMS, DEFAULT_ALGORITHM
from testbed.catalogue.data_sets import DATA_SETS, DEFAULT_DATA, DEFAULT_PARTITION, PartitionKind
from testbed.catalogue.models import DEFAULT_MODEL, MODELS
from testbed.catalogue.sharings import DEFAULT_SHARING, SHARINGS
from testbed.code import is_code
from testbed.experiment.built_in import options_of
from testbed.experiment.choices import Choice, Section, refused, together
from testbed.experiment.defaults import DEFAULT_ROUNDS
from testbed.experiment.scalars import (
    Above,
    Amount,
    AutoOrAbove,
    Chance,
    Count,
    Factor,
    Lasting,
    Name,
    NodeName,
    Positive,
    Range,
    Seed,
    Share,
    Trace,
    Truth,
    check_choice,
    choice_schema,
)
from testbed.topologies.language import Problem, Words, from_text
from testbed.units import shown

OVERLAYS = ("ring", "regular", "full", "small-world", "star", "file", "network", "cyclon")
DEFAULT_STEPS = 5
DEFAULT_DEGREE = 5
DEFAULT_VIEW, DEFAULT_SHUFFLE, DEFAULT_PERIOD_S = 20, 8, 1.0
"""Of Cyclon's views."""


def _overlay_kind(text: str) -> str:
    if text not in OVERLAYS and not is_code(text) and ("." in text or "/" in text):
        hint = "for a file of edges say `overlay.file`: --set overlay.file=FILE, or `overlay: {file: FILE}`"
        raise Problem("bad-value", f"{shown(text)} is not known here", hint)
    return check_choice(text, OVERLAYS)


class Overlay(Section):
    """The graph of nodes that exchange models."""

    called: ClassVar[str] = "`overlay`"
    one_word: ClassVar[str] = "kind"

    kind: Annotated[str, from_text(_overlay_kind), choice_schema(*OVERLAYS)] = Field(
        "regular", description="The kind of graph over the nodes, or code that makes one."
    )
    degree: Positive | None = Field(
        None, description="Neighbours of a node (regular, small-world, cyclon); 5, or the nearest that is possible."
    )
    dynamic: Truth = Field(False, description="A new graph every round.")
    peers: Literal["seed", "sampler"] = Field(
        "seed", description="Who draws a dynamic graph: every node from the seed, or a peer sampler that is asked."
    )
    sampler: NodeName | None = Field(None, description="The node with the peer sampler; the first one.")
    file: Name | None = Field(None, description="For `kind: file`: an edge list or adjacency list.")
    rewire: Chance = Field(0.1, description="For small-world: the chance of a link to lead elsewhere.")
    order: Literal["topology", "random"] | None = Field(
        None, description="For a ring that stays the same: nodes in the topology's order, or in a random one."
    )
    view: Positive | None = Field(None, description="For cyclon: the most other nodes that a node knows; 20.")
    shuffle: Positive | None = Field(None, description="For cyclon: how many of them two nodes exchange; 8.")
    period: Lasting | None = Field(None, description="For cyclon: the time between two exchanges; 1 s.")

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, value: object) -> object:
        value = cls.expanded(value)
        if isinstance(value, Mapping) and value.get("file") is not None and "kind" not in value:
            return {**value, "kind": "file"}
        return value

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.kind == "file" and self.file is None:
            raise Problem("missing", "an overlay of `kind: file` needs `file`", "add the name of an edge list")
        if self.order is not None and self.kind != "ring":
            raise Problem("bad-value", f"`order` is for rings, not for {shown(self.kind)}", "remove `order`")
        for name in ("view", "shuffle", "period"):
            if getattr(self, name) is not None and self.kind != "cyclon":
                message = f"`{name}` is for cyclon, not for {shown(self.kind)}"
                raise Problem("bad-value", message, f"remove `{name}`")
        if self.order == "topology" and self.dynamic:
            raise Problem("bad-value", "a dynamic ring has another order every round", "remove `order` or `dynamic`")
        return self


class Algorithm(Choice):
    """How the nodes learn together."""

    called: ClassVar[str] = "`algorithm`"
    built_in = options_of(ALGORITHMS)

    name: Name = Field(DEFAULT_ALGORITHM, description=f"{', '.join(ALGORITHMS)}, or code.")
    server: NodeName | None = Field(None, description="The node that serves instead of learning; the first one.")


class Sharing(Choice):
    """What of a model is sent."""

    called: ClassVar[str] = "`sharing`"
    built_in = options_of(SHARINGS)

    name: Name = Field(DEFAULT_SHARING, description=f"{', '.join(SHARINGS)}, or code.")


class Partition(Section):
    """Who gets which samples."""

    called: ClassVar[str] = "`partition`"
    one_word: ClassVar[str] = "kind"

    kind: PartitionKind = Field(
        DEFAULT_PARTITION, description="At random, by class in shards or by Dirichlet's distribution, or by user."
    )
    per_node: Positive = Field(2, description="For shards: how many a node gets.")
    variant: Literal["grid", "decpy"] = Field("grid", description="For shards: equal ones, or DecentralizePy's.")
    alpha: Above = Field(0.1, description="For dirichlet: the smaller, the fewer classes a node has.")
    min: Positive | None = Field(None, description="For dirichlet: samples that every node has at least, or none can.")
    order: Literal["shuffle", "contiguous"] | None = Field(
        None, description="For user: users at random, or by their numbers, which is usual for ratings."
    )

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, value: object) -> object:
        return cls.expanded(value)


def default_partition(data: str) -> str:
    """The default partition of a data set."""
    facts = DATA_SETS.get(data)
    return DEFAULT_PARTITION if facts is None else facts.partition


def _unusual(fact: str, usual: str) -> str:
    """The data sets whose default differs from most others': `VALUE for NAME, …`."""
    found = {name: getattr(facts, fact) for name, facts in DATA_SETS.items()}
    return ", ".join(f"{value} for {name}" for name, value in found.items() if value != usual)


class Data(Choice):
    """What there is to learn from."""

    called: ClassVar[str] = "`data`"
    built_in = options_of(DATA_SETS)

    name: Name = Field(DEFAULT_DATA, description=f"{', '.join(DATA_SETS)}, or code.")
    partition: Partition = Field(
        default_factory=Partition,
        description=f"Who gets which samples; {DEFAULT_PARTITION}, or {_unusual('partition', DEFAULT_PARTITION)}.",
    )

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, value: object) -> object:
        """Fills in the default partition of the data set: by user for ratings."""
        value = cls.expanded(value)
        if isinstance(value, Mapping) and isinstance(value.get("name"), str):
            return _with_default(value, "partition", "kind", default_partition(value["name"]))
        return value


def _with_default(section: Mapping[str, object], part: str, key: str, default: str) -> dict[str, object]:
    """The section with `part.key` set to a default, unless it has a value already."""
    inner = section.get(part, {})
    if not isinstance(inner, Mapping) or inner.get(key) is not None:
        return dict(section)
    return {**section, part: {**inner, key: default}}


class Model(Choice):
    """What is learned."""

    called: ClassVar[str] = "`model`"
    built_in = options_of(MODELS)

    name: Name = Field(
        DEFAULT_MODEL,
        description=f"{', '.join(MODELS)}, or code; by the data: {_unusual('model', DEFAULT_MODEL)}.",
    )


class Training(Section):
    """What a node does between two exchanges."""

    called: ClassVar[str] = "`training`"

    lr: Amount = Field(0.05, description="Learning rate.")
    batch: Positive = Field(8, description="Samples of a minibatch.")
    steps: Positive | None = Field(None, description=f"Minibatches a round; {DEFAULT_STEPS}, unless `epochs` is given.")
    epochs: Positive | None = Field(None, description="Times through the node's samples a round, instead of `steps`.")
    optimizer: Literal["sgd"] = Field("sgd", description="Stochastic gradient descent.")
    momentum: Chance = Field(0.0, description="Part of the last step that is made again.")
    weight_decay: Amount = Field(0.0, description="Pull of the weights towards 0.")

    @model_validator(mode="wrap")
    @classmethod
    def _complete(cls, value: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(value, Mapping):
            return handler(value)
        if value.get("epochs") is None:
            return handler({**value, "steps": DEFAULT_STEPS} if value.get("steps") is None else value)
        if value.get("steps") is None:
            return handler(value)
        both = refused("epochs", value["epochs"], Problem("both", "`steps` is given too", "remove one of the two"))
        try:
            handler(value)
        except ValidationError as problem:
            raise together(problem, both) from None
        raise both


class Stop(Section):
    """When it is over: at the first of these."""

    called: ClassVar[str] = "`stop`"

    rounds: Positive | None = Field(None, description=f"After so many rounds; {DEFAULT_ROUNDS} if nothing is given.")
    time_s: Lasting | None = Field(None, alias="time", description="After this much emulated time, such as 120s.")
    accuracy: Share | None = Field(None, description="When the nodes' mean accuracy reaches this.")

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, value: object) -> object:
        if isinstance(value, Mapping) and all(each is None for each in value.values()):
            return {**value, "rounds": DEFAULT_ROUNDS}
        return value


class Evaluation(Section):
    """How often models are tried, and on how much."""

    called: ClassVar[str] = "`evaluation`"

    every: Positive = Field(10, description="Rounds from one to the next.")
    samples: Positive = Field(500, description="Test samples.")
    mode: Literal["after", "inline", "none"] = Field(
        "after", description="Outside emulated time, as work that takes its time, or not at all."
    )


class SpeedFactor(Section):
    """How much longer some nodes take for a step."""

    called: ClassVar[str] = "a factor"

    nodes: Words | None = Field(None, description="A service, a node, a pattern, or a list of them.")
    share: Share | None = Field(None, description="Instead: this part of the nodes, drawn from the seed.")
    factor: Factor | None = Field(None, description="4 takes four times as long.")
    between: Range | None = Field(None, description="Instead: drawn for each node between these two.")
    trace: Trace | None = Field(None, description="Instead: [[time, factor], …], or a CSV file of such lines.")

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if (self.nodes is None) == (self.share is None):
            raise Problem("bad-shape", "it says `nodes` or `share`, one of the two", 'such as {nodes: "*", factor: 2}')
        if sum(each is not None for each in (self.factor, self.between, self.trace)) != 1:
            raise Problem(
                "bad-shape",
                "it says `factor`, `between` or `trace`, one of the three",
                "such as {share: 0.1, factor: 5}",
            )
        return self


def _as_list(value: object) -> object:
    return [value] if isinstance(value, Mapping) else value


def _or_one(schema: dict[str, Any]) -> None:
    """The schema allows one entry in place of a list, as `_as_list` does."""
    schema["anyOf"] = [schema["items"], {"type": schema.pop("type"), "items": schema.pop("items")}]


class Compute(Section):
    """How long a local step takes."""

    called: ClassVar[str] = "`compute`"

    mode: Literal["paced", "measured"] = Field(
        "paced", description="As long as `ms_per_step` and the factors say, or as long as it takes."
    )
    ms_per_step: AutoOrAbove = Field("auto", description="Milliseconds of emulated time a step, or `auto`.")
    factors: Annotated[tuple[SpeedFactor, ...], BeforeValidator(_as_list)] = Field(
        (),
        description="Slow and fast nodes; where several name one node, the last counts.",
        json_schema_extra=_or_one,
    )


class Missing(Section):
    """What happens when a peer is silent."""

    called: ClassVar[str] = "`missing`"

    after_s: Lasting = Field(60.0, alias="after", description="How long a peer may be silent, such as 60s.")
    then: Literal["wait", "skip", "abort"] = Field(
        "wait",
        description="Wait on, go on without it, or end the node; `wait`, or `skip` "
        "where the topology's events take nodes away, or the algorithm waits for no other node.",
    )


class Outbox(Section):
    """What becomes of messages that have not left when the next one is ready."""

    called: ClassVar[str] = "`outbox`"

    policy: OutboxPolicy | None = Field(
        None,
        description="All leave in order (fifo), old ones are dropped (flush), or only the newest for each peer is kept "
        "(latest); what the algorithm runs with if nothing is given.",
    )
    in_flight: Positive | None = Field(
        None, description="Messages under way at once to all peers, one to each; by the algorithm if nothing is given."
    )


class Snapshots(Section):
    """Copies of a node's model on the shared volume."""

    called: ClassVar[str] = "`snapshots`"

    every: Count = Field(0, description="Rounds from one to the next; 0: only when something needs them.")


class NetworkModel(Section):
    """How TCP behaves, and in virtual time the network."""

    called: ClassVar[str] = "`network`"

    share: Literal["max-min", "rtt-weighted"] = Field(
        "max-min", description="In virtual time, how messages divide a link."
    )
    congestion: Literal["cubic", "reno"] = Field(
        "cubic", description="TCP's congestion control; reno where a time scale is above 1 and nothing is said."
    )
    idle_restart: Truth = Field(True, description="TCP starts slowly again after a pause, as Linux does by default.")


class Experiment(Section):
    """One run: what is learned, by which nodes, how, and for how long."""

    topology: Name = Field(description="The network: a file in XML or YAML, or a bundled one.")
    overlay: Overlay = Field(default_factory=Overlay, description="The graph of nodes that exchange models.")
    algorithm: Algorithm = Field(default_factory=Algorithm, description="How the nodes learn together.")
    sharing: Sharing = Field(default_factory=Sharing, description="What of a model is sent.")
    data: Data = Field(default_factory=Data, description="What there is to learn from, and who gets which part.")
    model: Model = Field(default_factory=Model, description="What is learned.")
    training: Training = Field(default_factory=Training, description="What a node does between two exchanges.")
    stop: Stop = Field(default_factory=Stop, description="When it is over.")
    evaluation: Evaluation = Field(default_factory=Evaluation, description="How often models are tried.")
    seed: Seed = Field(1, description="Another seed, other random draws.")
    compute: Compute = Field(default_factory=Compute, description="How long a local step takes.")
    missing: Missing = Field(default_factory=Missing, description="What happens when a peer is silent.")
    outbox: Outbox = Field(default_factory=Outbox, description="What becomes of messages that have not left.")
    rejoin: Literal["fresh", "last"] = Field(
        "fresh", description="A node that comes back begins anew, or with its newest snapshot."
    )
    snapshots: Snapshots = Field(default_factory=Snapshots, description="Copies of the nodes' models.")
    network: NetworkModel = Field(default_factory=NetworkModel, description="How TCP and the network behave.")

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, value: object) -> object:
        """Fills in the default model of the data set."""
        if not isinstance(value, Mapping):
            return value
        data = Data.expanded(value.get("data"))
        name = data.get("name") if isinstance(data, Mapping) else data.name if isinstance(data, Data) else None
        facts = DATA_SETS.get(name) if isinstance(name, str) else None
        return value if facts is None else _with_default(value, "model", "name", facts.model)


def json_schema() -> dict[str, Any]:
    """The language as a JSON Schema, for editors."""
    schema = Experiment.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "testbed experiment"}
