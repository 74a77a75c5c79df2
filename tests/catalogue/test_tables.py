"""The tables: every fact is there, and true of the code that it is about."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from testbed.catalogue.algorithm_facts import AlgorithmFacts, OutboxFacts, Paper
from testbed.catalogue.algorithms import ALGORITHMS, DEFAULT_ALGORITHM, exchange_of
from testbed.catalogue.data_sets import DATA_SETS, DEFAULT_DATA, DataSetFacts
from testbed.catalogue.exchanges import BetweenVirtualNodes, InTurns, Partners, Sent, WithPeers, WithServer
from testbed.catalogue.models import DEFAULT_MODEL, MODELS, ModelFacts
from testbed.catalogue.options import Option, Type, number, number_or_none
from testbed.catalogue.sharings import DEFAULT_SHARING, SHARINGS, SharingFacts
from testbed.catalogue.tables import Entry, by_name
from testbed.code import load_object
from testbed.experiment.language import Algorithm, Data, Experiment, Model, Sharing
from testbed.node.algorithm import Algorithm as AlgorithmClass
from testbed.node.choose import choose_sharing
from testbed.node.data.catalogue import ENTRIES
from testbed.node.sharing.base import Sharing as SharingClass
from testbed.seeds import stream
from tests.test_docs import ROOT

TABLES: dict[str, Mapping[str, Entry]] = {
    "algorithms": ALGORITHMS,
    "sharings": SHARINGS,
    "models": MODELS,
    "data_sets": DATA_SETS,
}
ENTRIES_OF_ALL = [
    pytest.param(entry, id=f"{kind}-{name}") for kind, table in TABLES.items() for name, entry in table.items()
]
ONE_OF_EACH: list[Any] = [ALGORITHMS["epidemic"], SHARINGS["topk"], MODELS["mlp"], DATA_SETS["digits"]]


@pytest.mark.parametrize("made", ONE_OF_EACH, ids=lambda made: type(made).__name__)
def test_no_fact_can_be_left_out(made: AlgorithmFacts | SharingFacts | ModelFacts | DataSetFacts) -> None:
    whole = {field.name: getattr(made, field.name) for field in fields(made)}
    assert type(made)(**whole) == made
    for name in whole:
        with pytest.raises(TypeError, match=f"'{name}'"):
            type(made)(**{key: value for key, value in whole.items() if key != name})


@pytest.mark.parametrize(
    "kind", [Option, WithPeers, BetweenVirtualNodes, WithServer, InTurns, Sent, OutboxFacts, Paper]
)
def test_nor_in_what_facts_consist_of(kind: type) -> None:
    for parameter in inspect.signature(kind).parameters.values():
        assert parameter.default is inspect.Parameter.empty


@pytest.mark.parametrize("entry", ENTRIES_OF_ALL)
def test_an_entrys_code_takes_its_options_with_its_defaults(entry: Entry) -> None:
    made = load_object(entry.code)
    assert callable(made)
    if entry.name in DATA_SETS:
        return  # they read their options themselves
    taken = dict(inspect.signature(made).parameters)
    for given in ("random", "data"):
        taken.pop(given, None)
    assert list(taken) == [option.name for option in entry.options]
    for option in entry.options:
        assert taken[option.name].default == option.default


def test_classes_are_what_their_tables_say() -> None:
    for algorithm in ALGORITHMS.values():
        made = load_object(algorithm.code)
        assert isinstance(made, type)
        assert issubclass(made, AlgorithmClass)
        assert made.needs_server == algorithm.needs_server, "it is what classes derived from it inherit"
    for sharing in SHARINGS.values():
        assert issubclass(load_object(sharing.code), SharingClass)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("section", "table"), [(Algorithm, ALGORITHMS), (Sharing, SHARINGS), (Model, MODELS), (Data, DATA_SETS)]
)
def test_experiments_are_read_by_the_tables(section: Any, table: Mapping[str, Entry]) -> None:
    for name, entry in table.items():
        chosen = section.model_validate({"name": name})
        assert chosen.options == {option.name: option.default for option in entry.options}
        assert section.model_validate({"name": name, **chosen.options}) == chosen, "every default is a value"


def test_the_defaults_are_in_the_tables() -> None:
    usual = Experiment.model_validate({"topology": "t"})
    names = (usual.algorithm.name, usual.sharing.name, usual.model.name, usual.data.name)
    assert names == (DEFAULT_ALGORITHM, DEFAULT_SHARING, DEFAULT_MODEL, DEFAULT_DATA)
    for name, facts in DATA_SETS.items():
        chosen = Experiment.model_validate({"topology": "t", "data": name})
        assert (chosen.model.name, chosen.data.partition.kind) == (facts.model, facts.partition)


def test_two_entries_cannot_have_one_name() -> None:
    with pytest.raises(ValueError, match="two entries have one name: mlp, mlp"):
        by_name(MODELS["mlp"], MODELS["mlp"])


def test_who_draws_its_peers_is_asked_how_many() -> None:
    with pytest.raises(ValueError, match="has no option fanout or recipients"):
        replace(ALGORITHMS["epidemic"], options=(), exchange=lambda _: replace(EPIDEMIC))


EPIDEMIC = WithPeers(Partners.ANY, fanout=None, waits=False, pause_s=0.0, tells_others=False)


def test_what_a_round_is_like_depends_on_the_options() -> None:
    def of(name: str, **options: object) -> Any:
        return exchange_of(name, Algorithm.model_validate({"name": name, **options}).options)

    assert of("dpsgd") == WithPeers(Partners.NEIGHBOURS, None, waits=True, pause_s=None, tells_others=False)
    assert of("epidemic") == WithPeers(Partners.REGULAR, None, waits=True, pause_s=None, tells_others=False)
    local = WithPeers(Partners.ANY, 3, waits=False, pause_s=None, tells_others=False)
    assert of("epidemic", mode="local", fanout=3) == local
    paused = replace(local, pause_s=2.0)
    assert of("epidemic", mode="local", fanout=3, round_end="timeout", timeout="2s") == paused
    assert of("epidemic", mode="local", fanout=3, round_end="notify") == replace(local, waits=True, tells_others=True)
    for ending in ("timeout", "notify"):
        assert of("epidemic", round_end=ending) == of("epidemic"), "only `local` ends so"
    assert of("divshare", recipients=3) == WithPeers(Partners.ANY, 3, waits=False, pause_s=0.0, tells_others=False)
    assert of("mosaic", fanout=3) == local
    assert of("mosaic", round_end="notify") == replace(local, fanout=None, waits=True)
    virtual = BetweenVirtualNodes(Partners.ANY, 4, waits=True, pause_s=None, tells_others=False, virtual=16)
    assert of("shatter") == virtual
    assert of("shatter", virtual_nodes=1) == replace(virtual, partners=Partners.REGULAR, virtual=1)
    assert of("plexus", sample=7) == InTurns(active=7, meets=0, collected=True, to_all=False, asks=True)
    assert of("plexus", aggregate="all") == InTurns(active=13, meets=0, collected=False, to_all=True, asks=True)
    assert of("fedavg", participation=0.5, deadline="3s") == WithServer(0.5, 1.0, 3.0, waits=True)
    assert of("parameter-server", mode="async") == WithServer(1.0, 1.0, None, waits=False)
    assert exchange_of("mine.py:Mine", {}) is None
    assert [name for name, facts in ALGORITHMS.items() if facts.needs_server] == ["fedavg", "parameter-server"]


@pytest.mark.parametrize("name", SHARINGS)
@pytest.mark.parametrize("fraction", [0.1, 0.4, 0.5])
def test_a_message_takes_as_many_bytes_as_the_table_says(name: str, fraction: float) -> None:
    facts, parameters = SHARINGS[name], 20_000
    options: dict[str, object] = {option.name: option.default for option in facts.options}
    if "fraction" in options:
        options["fraction"] = fraction
    model = np.random.default_rng(1).normal(size=parameters).astype(np.float32)
    sharing = choose_sharing(name, options, stream(1, "test"))
    sharing.begin(model)
    message = sharing.encode(model, 0)
    found = sum(buffer.nbytes for buffer in (*message.payload, *message.metadata))
    assert facts.message_bytes(parameters, options) == pytest.approx(
        found, rel=0.05 if "seed" in message.fields else 0.0
    )


def test_options_are_numbers_or_an_error() -> None:
    assert (number({"n": 3}, "n"), number_or_none({"n": None}, "n")) == (3.0, None)
    for wrong in (True, "3", None):
        with pytest.raises(TypeError, match="the option n is no number"):
            number({"n": wrong}, "n")


def test_every_data_set_is_in_both_halves_of_its_description() -> None:
    assert list(ENTRIES) == list(DATA_SETS)
    for name, entry in ENTRIES.items():
        assert entry.facts is DATA_SETS[name]
    with pytest.raises(ValueError, match="has arrays to store, or it is not fetched"):
        replace(ENTRIES["digits"], facts=DATA_SETS["mnist"])


def test_every_type_of_option_can_be_read() -> None:
    from testbed.experiment.built_in import _READ_AS

    assert set(_READ_AS) == set(Type)


PAGES = {"algorithms": "algorithms.md", "sharings": "algorithms.md", "models": "experiment.md", "data_sets": "data.md"}


@pytest.mark.parametrize("kind", TABLES)
def test_the_pages_tell_of_every_entry_and_its_options(kind: str) -> None:
    page, whole = (ROOT / "docs" / PAGES[kind]).read_text(), (ROOT / "docs" / "experiment.md").read_text()
    for entry in TABLES[kind].values():
        assert f"`{entry.name}`" in page or f"## {entry.name}\n" in page
        for option in entry.options:
            assert f"`{option.name}`" in page + whole or f".{option.name}`" in whole


@pytest.mark.processes
def test_the_tables_load_nothing_heavy() -> None:
    modules = ", ".join(f"testbed.catalogue.{kind}" for kind in TABLES)
    program = f"import sys, {modules}; sys.exit(bool({{'torch', 'numpy', 'pydantic', 'yaml'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
