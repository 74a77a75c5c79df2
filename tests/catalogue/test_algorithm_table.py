"""The table that compares algorithms: on its page, and printed by `testbed algorithms`."""

from __future__ import annotations

import csv
import io
import json
import os

import pytest

from testbed.catalogue.algorithm_facts import OutboxFacts
from testbed.catalogue.algorithm_table import (
    COLUMNS,
    comparison,
    markdown,
    messages_in_words,
    models_in_words,
    outbox_in_words,
)
from testbed.catalogue.algorithms import ALGORITHMS
from testbed.catalogue.exchanges import Sender, Sent
from tests.cli.in_process import command
from tests.test_docs import ROOT

PAGE = ROOT / "docs" / "algorithms.md"
BEGIN = "<!-- TESTBED_WRITE_GOLDEN=1 pytest tests/catalogue/test_algorithm_table.py writes this table. -->\n"
END = "<!-- end -->\n"


def test_the_page_has_the_table_of_the_facts() -> None:
    before, rest = PAGE.read_text().split(BEGIN)
    table, after = rest.split(END)
    made = f"\n{markdown(comparison(ALGORITHMS.values()))}\n"
    if os.environ.get("TESTBED_WRITE_GOLDEN"):
        PAGE.write_text(f"{before}{BEGIN}{made}{END}{after}")
        pytest.skip("written")
    assert table == made


def test_fragments_are_counted_as_parts_of_a_model() -> None:
    sorts = (
        Sent("a request", Sender.LEARNER, 1.5, is_drawn=True, answers=False, part=0.0, shared=False),
        Sent("a fragment", Sender.LEARNER, 12, is_drawn=False, answers=True, part=0.25, shared=False),
    )
    assert messages_in_words(sorts) == "about 1.5 × a request; 12 × a fragment"
    assert models_in_words(sorts) == "3 models"
    from_server = Sent("a model", Sender.SERVER, 7, is_drawn=False, answers=False, part=1.0, shared=True)
    assert messages_in_words([from_server]) == "7 × a model (the server)"
    assert models_in_words([from_server]) == "0 models; the server 7"
    assert outbox_in_words(OutboxFacts("flush", in_flight=2)) == "flush, 2 under way"


def test_no_cell_has_a_line_of_its_own_or_another_column() -> None:
    for row in comparison(ALGORITHMS.values()):
        assert len(row) == len(COLUMNS)
        for cell in row:
            assert cell.strip() == cell
            assert not set(cell) & set("|\n")
    for facts in ALGORITHMS.values():
        for clause in (facts.waits_for, facts.remembers, facts.crash_costs):
            assert clause
            assert not clause.endswith(".")
            assert len(clause) <= 120, f"{facts.name}: {clause}"


def test_the_command_prints_it_with_options() -> None:
    rows = list(csv.DictReader(io.StringIO(command("algorithms", "--format", "csv").stdout)))
    assert [row["algorithm"] for row in rows] == list(ALGORITHMS)
    assert rows[1]["options"] == "mode, fanout, round_end, timeout"
    assert rows[0]["payload a round"] == "5 models"
    (few,) = csv.DictReader(io.StringIO(command("algorithms", "dpsgd", "--learners", "3", "--format", "csv").stdout))
    assert few["payload a round"] == "2 models", "no more neighbours than there are"
    described = command("algorithms", "epidemic").stdout
    for option in ALGORITHMS["epidemic"].options:
        assert option.name in described
        assert option.help in described


def test_as_json_it_has_every_fact() -> None:
    found = json.loads(command("algorithms", "--format", "json").stdout)
    assert [each["name"] for each in found] == list(ALGORITHMS)
    one = json.loads(command("algorithms", "fedavg", "--learners", "10", "--format", "json").stdout)
    assert [each["count"] for each in one["messages"]] == [10, 1.0]
    assert one["published"]["arxiv"] == "1602.05629"
    assert one["outbox"] == {"policy": "fifo", "in_flight": None}


def test_a_name_that_is_not_there_is_told() -> None:
    found = command("algorithms", "epidemc")
    assert found.exit_code == 2
    assert "did you mean `epidemic`?" in found.stderr
