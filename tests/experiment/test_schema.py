"""The JSON Schema of experiments and the reader agree."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from testbed.cli.main import main
from testbed.experiment.language import json_schema
from testbed.topologies.language import json_schema as schema_of_topologies

DOCS = Path(__file__).parents[2] / "docs" / "experiment.md"
EXAMPLES = re.findall(r"^```yaml([^\n]*)\n(.*?)^```$", DOCS.read_text(), re.MULTILINE | re.DOTALL)
VALIDATOR = Draft202012Validator(json_schema())


def test_it_is_printed_when_asked_for() -> None:
    Draft202012Validator.check_schema(json_schema())
    assert json.loads(CliRunner().invoke(main, ["schema", "experiment"]).stdout) == json_schema()
    for arguments in ([], ["topology"]):
        assert json.loads(CliRunner().invoke(main, ["schema", *arguments]).stdout) == schema_of_topologies()
    assert CliRunner().invoke(main, ["schema", "experimnt"]).exit_code == 2


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 4
    assert sum("error=" in remark for remark, _ in EXAMPLES) >= 1


@pytest.mark.parametrize(("remark", "text"), EXAMPLES)
def test_it_takes_the_examples_of_the_documentation_and_refuses_the_wrong_ones(remark: str, text: str) -> None:
    assert VALIDATOR.is_valid(yaml.safe_load(text)) == ("error=" not in remark)
