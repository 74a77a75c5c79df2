"""One model for files, options and plans: what goes in comes out, and the schema says the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from testbed.experiment.language import Experiment, json_schema
from tests.examples import examples

VALIDATOR = Draft202012Validator(json_schema())

_counts = st.integers(1, 10**6)
_shares = st.floats(0.001, 1)
_factors = st.floats(0.01, 100)
_durations = st.integers(1, 10**6).map(lambda ms: f"{ms}ms")
_scalars = st.one_of(st.booleans(), st.integers(-(10**9), 10**9), st.floats(-1e6, 1e6), st.text("abc é-", min_size=1))
_free = st.dictionaries(st.sampled_from(["a", "b", "name_", "x"]), st.one_of(_scalars, st.lists(_scalars, max_size=3)))


def _some(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=keys)


_algorithm = st.one_of(
    st.sampled_from(["dpsgd", "epidemic", "my:Own"]),
    _some(server=st.just("a.0")).map(lambda keys: {"name": "fedavg", **keys}),
    _some(participation=_shares, weighted=st.booleans(), deadline=_durations).map(
        lambda keys: {"name": "fedavg", **keys}
    ),
    _some(mode=st.sampled_from(["oracle", "local"]), fanout=_counts, timeout=_durations).map(
        lambda keys: {"name": "epidemic", **keys}
    ),
    _some(mode=st.sampled_from(["sync", "async"]), max_lead=_counts).map(
        lambda keys: {"name": "parameter-server", **keys}
    ),
    _free.map(lambda options: {"name": "path/own.py:Own", "options": options}),
)
_factor_entries = st.builds(
    lambda who, what: {**who, **what},
    st.one_of(st.just({"nodes": "a"}), st.just({"nodes": ["a", "b.*"]}), _shares.map(lambda share: {"share": share})),
    st.one_of(
        _factors.map(lambda factor: {"factor": factor}),
        st.tuples(_factors, _factors).map(lambda two: {"between": sorted(two)}),
        st.lists(_factors, min_size=1, max_size=4).map(
            lambda found: {"trace": [[f"{at}s", factor] for at, factor in enumerate(found)]}
        ),
        st.just({"trace": "speeds.csv"}),
    ),
)
DOCUMENTS = st.fixed_dictionaries(
    {"topology": st.just("t.yaml")},
    optional={
        "overlay": st.one_of(
            st.sampled_from(["ring", "full", "network", "a:b"]),
            _some(kind=st.just("regular"), degree=_counts, dynamic=st.booleans(), peers=st.just("sampler")),
            _some(file=st.just("edges")),
            _some(view=_counts, shuffle=_counts, period=_durations).map(lambda keys: {"kind": "cyclon", **keys}),
        ),
        "algorithm": _algorithm,
        "sharing": st.one_of(st.just("topk"), _some(fraction=_shares).map(lambda keys: {"name": "random", **keys})),
        "data": st.one_of(
            st.sampled_from(["digits", "movielens", "a:b"]),
            _free.map(lambda options: {"name": "a:b", "options": options, "partition": "iid"}),
            _some(samples=_counts, users=_counts, spread=_factors).map(lambda keys: {"name": "synthetic", **keys}),
            _some(normalise=st.sampled_from(["channel", "half", "none"])).map(lambda keys: {"name": "mnist", **keys}),
            _some(path=st.just("ratings.csv")).map(lambda keys: {"name": "movielens", **keys}),
            _some(partition=_some(kind=st.just("user"), order=st.sampled_from(["shuffle", "contiguous"]))),
            _some(partition=_some(kind=st.just("dirichlet"), alpha=_factors, min=_counts)),
        ),
        "model": st.one_of(st.just("mlp"), st.lists(_counts, min_size=1).map(lambda w: {"name": "mlp", "hidden": w})),
        "training": st.one_of(_some(lr=st.floats(0, 10), steps=_counts), st.just({"epochs": 2})),
        "stop": _some(rounds=_counts, time=_durations, accuracy=_shares),
        "seed": st.integers(0, 10**12 - 1),
        "compute": _some(ms_per_step=st.one_of(st.just("auto"), _factors), factors=st.lists(_factor_entries)),
        "missing": _some(after=_durations, then=st.sampled_from(["wait", "skip", "abort"])),
        "outbox": _some(policy=st.sampled_from(["fifo", "flush", "latest"]), in_flight=_counts),
        "rejoin": st.sampled_from(["fresh", "last"]),
    },
)


@settings(max_examples=examples(200), deadline=None)
@given(DOCUMENTS)
def test_what_a_plan_holds_is_the_experiment_again(document: dict[str, Any]) -> None:
    experiment = Experiment.model_validate(document)
    dumped = experiment.model_dump(mode="json")
    assert Experiment.model_validate(dumped) == experiment
    assert Experiment.model_validate_json(json.dumps(dumped)) == experiment
    assert Experiment.model_validate(dumped).model_dump(mode="json") == dumped


def _as_text(value: Any) -> Any:
    """As a YAML file gives it: scalars are text."""
    if isinstance(value, dict):
        return {key: _as_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_text(item) for item in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


@settings(max_examples=examples(200), deadline=None)
@given(DOCUMENTS)
def test_text_means_what_numbers_mean_and_fits_the_schema(document: dict[str, Any]) -> None:
    assert Experiment.model_validate(_as_text(document)) == Experiment.model_validate(document)
    assert VALIDATOR.is_valid(document)


def test_the_defaults() -> None:
    experiment = Experiment(topology="t")
    overlay, stop, training = experiment.overlay, experiment.stop, experiment.training
    assert (overlay.kind, overlay.degree, overlay.dynamic, overlay.peers) == ("regular", None, False, "seed")
    assert (stop.rounds, stop.time_s, stop.accuracy) == (50, None, None)
    assert (training.lr, training.batch, training.steps, training.epochs) == (0.05, 8, 5, None)
    assert (experiment.data.name, experiment.data.partition.kind, experiment.model.name) == (
        "fashion-mnist",
        "shards",
        "gn-lenet",
    )
    assert (experiment.missing.after_s, experiment.seed, experiment.rejoin) == (60.0, 1, "fresh")
    assert (experiment.algorithm.name, experiment.algorithm.options) == ("dpsgd", {})


@pytest.mark.parametrize(
    ("data", "model", "partition"),
    [("digits", "mlp", "shards"), ("synthetic", "logistic", "shards"), ("movielens", "mf", "user")],
)
def test_the_data_says_which_model_and_partition(data: str, model: str, partition: str) -> None:
    experiment = Experiment.model_validate({"topology": "t", "data": data})
    assert (experiment.model.name, experiment.data.partition.kind) == (model, partition)
    chosen = Experiment.model_validate({"topology": "t", "data": {"name": data, "partition": "iid"}, "model": "x:Y"})
    assert (chosen.model.name, chosen.data.partition.kind) == ("x:Y", "iid")


def test_options_have_their_defaults_filled_in() -> None:
    experiment = Experiment.model_validate({"topology": "t", "algorithm": {"name": "epidemic", "mode": "local"}})
    assert experiment.algorithm.options == {"mode": "local", "fanout": None, "round_end": "expected", "timeout": 1.0}
    own = Experiment.model_validate({"topology": "t", "algorithm": {"name": "a:B", "options": {"n": "3", "x": "010"}}})
    assert own.algorithm.options == {"n": 3, "x": "010"}


def test_stop_by_time_alone_has_no_number_of_rounds() -> None:
    stop = Experiment.model_validate({"topology": "t", "stop": {"time": "2m"}}).stop
    assert (stop.rounds, stop.time_s) == (None, 120.0)


def test_it_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Experiment(topology="t").seed = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"topology": "t", "overlay": {"degree": 0}},
        {"topology": "t", "overlay": {"kind": "file"}},
        {"topology": "t", "overlay": {"rewire": 1.5}},
        {"topology": "t", "overlay": {"dynamic": 1}},
        {"topology": "t", "algorithm": "fedavgg"},
        {"topology": "t", "algorithm": {"fanout": 3}},
        {"topology": "t", "algorithm": {"name": "a:B", "fanout": 3}},
        {"topology": "t", "data": {"name": "digits", "options": {"a": 1}}},
        {"topology": "t", "data": {"name": "digits", "normalise": "all"}},
        {"topology": "t", "data": {"name": "digits", "path": "x"}},
        {"topology": "t", "data": {"name": "synthetic", "samples": 0}},
        {"topology": "t", "data": {"name": "movielens", "samples": 10}},
        {"topology": "t", "data": {"partition": {"order": "sorted"}}},
        {"topology": "t", "sharing": {"name": "topk", "fraction": 0}},
        {"topology": "t", "training": {"steps": 1, "epochs": 1}},
        {"topology": "t", "training": {"steps": 1.5}},
        {"topology": "t", "training": {"lr": True}},
        {"topology": "t", "training": {"lr": float("nan")}},
        {"topology": "t", "stop": {"time": 0}},
        {"topology": "t", "stop": {"accuracy": "80%"}},
        {"topology": "t", "compute": {"factors": [{"nodes": "a"}]}},
        {"topology": "t", "compute": {"factors": [{"nodes": "a", "share": 0.5, "factor": 1}]}},
        {"topology": "t", "compute": {"factors": [{"nodes": "a", "trace": [[5, 1], [5, 2]]}]}},
        {"topology": "t", "compute": {"factors": [{"nodes": "a", "between": [2, 1]}]}},
        {"topology": "t", "seed": -1},
        {"topology": "t", "seeed": 1},
    ],
)
def test_what_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Experiment.model_validate(document)


def test_the_schema_is_one_and_describes_every_key() -> None:
    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    assert not VALIDATOR.is_valid({"topology": "t", "training": {"lrr": 1}})
    assert VALIDATOR.is_valid({"topology": "t", "stop": {"time": "120s"}, "missing": {"after": "5s"}})
    for definition in [schema, *schema["$defs"].values()]:
        for part in definition.get("anyOf", [definition]):
            for key, described in part.get("properties", {}).items():
                assert {"description", "anyOf", "$ref"} & set(described), key
