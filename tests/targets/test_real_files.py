"""Files that Kollaps is known to run have no errors for it: the bundled ones and its own examples."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.errors import Severity
from testbed.targets import Target
from testbed.topologies.bundled import BUNDLED, Bundled
from testbed.topologies.load import load
from tests.reference import needs_reference, reference_files
from tests.targets.judging import judged_topology


def errors(path: Path, target: Target) -> set[str]:
    loaded = load(path)
    found = judged_topology(loaded.require(), target, loaded.findings)
    return {finding.code for finding in found if finding.severity is Severity.ERROR}


@pytest.mark.parametrize("bundled", [each for each in BUNDLED if each.form == "xml"], ids=lambda each: each.name)
@pytest.mark.parametrize("target", list(Target))
def test_bundled_xml_runs_everywhere(bundled: Bundled, target: Target) -> None:
    assert not errors(bundled.path, target)


@pytest.mark.parametrize("bundled", [each for each in BUNDLED if each.form == "yaml"], ids=lambda each: each.name)
def test_bundled_yaml_is_what_kollaps_cannot_run(bundled: Bundled) -> None:
    assert "kollaps-cannot-say" in errors(bundled.path, Target.KOLLAPS)
    assert not errors(bundled.path, Target.DOCKER)


@needs_reference
@pytest.mark.parametrize("path", reference_files(), ids=lambda path: path.stem)
def test_kollaps_own_examples_run_on_kollaps(path: Path) -> None:
    # Its parsers disagree on `ping`, whose links have no `download`.
    assert errors(path, Target.KOLLAPS) == ({"kollaps-one-way"} if "ping" in path.name else set())
