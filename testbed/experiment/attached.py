"""The files that an experiment names: code, data, lists of edges, traces of speed.

Takes a validated experiment and its origin, gives it with these files located; touches these files only. Code is
located, not run.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator

from testbed.code import file_of, is_code, split
from testbed.errors import UsageProblem
from testbed.experiment.language import Experiment
from testbed.experiment.origin import Origin, OriginReport
from testbed.experiment.scalars import read_trace
from testbed.topologies.language import Problem
from testbed.topologies.source import Rejected, decode, read_bytes

_CODE = (("overlay", "kind"), ("algorithm", "name"), ("sharing", "name"), ("data", "name"), ("model", "name"))


def attach(experiment: Experiment, origin: Origin, report: OriginReport) -> tuple[Experiment, dict[str, str]]:
    """The experiment with located paths and expanded traces, and the texts of other files, by name."""
    texts: dict[str, str] = {}
    experiment = _with_code(experiment, origin, report)
    experiment = _with_data(experiment, origin, report)
    experiment = _with_traces(experiment, origin, report, texts)
    overlay = experiment.overlay
    if overlay.kind == "file" and overlay.file is not None:
        text = _read(overlay.file, origin, report, "overlay", "file")
        if text is not None:
            texts[overlay.file] = text
    return experiment, texts


def own_code(experiment: Experiment) -> Iterator[str]:
    """The names of the researcher's own code, as `module:Name` or `file.py:Name`."""
    for section, key in _CODE:
        name = getattr(getattr(experiment, section), key)
        if is_code(name):
            yield name


def own_files(experiment: Experiment) -> Iterator[str]:
    """The files that a run reads itself: the experiment's own code, and its own data."""
    yield from (str(path) for name in own_code(experiment) if (path := file_of(name)))
    if (ratings := _ratings(experiment)) is not None:
        yield ratings


def _with_code(experiment: Experiment, origin: Origin, report: OriginReport) -> Experiment:
    found = {}
    for section, key in _CODE:
        chosen = getattr(experiment, section)
        name = getattr(chosen, key)
        if not is_code(name) or file_of(name) is None:
            continue
        file, what = split(name)
        path = origin.locate(file)
        if not path.is_file():
            report.complain("no-file", f"there is no file {file}", "write path/to/file.py:Name", section, key)
        found[section] = chosen.model_copy(update={key: f"{path}:{what}"})
    return experiment.model_copy(update=found)


def _ratings(experiment: Experiment) -> str | None:
    """The file given for the data set of ratings."""
    path = experiment.data.options.get("path")
    return path if isinstance(path, str) and not is_code(experiment.data.name) else None


def _with_data(experiment: Experiment, origin: Origin, report: OriginReport) -> Experiment:
    name = _ratings(experiment)
    if name is None:
        return experiment
    path = origin.locate(name)
    if not path.is_file():
        report.complain("no-file", f"there is no file {name}", "", "data", "path")
    data = experiment.data.model_copy(update={"options": {**experiment.data.options, "path": str(path)}})
    return experiment.model_copy(update={"data": data})


def _with_traces(experiment: Experiment, origin: Origin, report: OriginReport, texts: dict[str, str]) -> Experiment:
    factors = []
    for number, each in enumerate(experiment.compute.factors):
        if isinstance(each.trace, str):
            place = ("compute", "factors", number, "trace")
            text = _read(each.trace, origin, report, *place)
            if text is None:
                continue
            texts[each.trace] = text
            try:
                trace = read_trace(_rows(text))
            except Problem as problem:
                report.complain(problem.code, f"{each.trace}: {problem.message}", problem.hint, *place)
                continue
            each = each.model_copy(update={"trace": trace})
        factors.append(each)
    compute = experiment.compute.model_copy(update={"factors": tuple(factors)})
    return experiment.model_copy(update={"compute": compute})


def _rows(text: str) -> Iterator[object]:
    """Pairs of time (a duration, or seconds) and factor; a heading and comments are skipped."""
    for number, row in enumerate(csv.reader(line for line in text.splitlines() if line.split("#")[0].strip())):
        cells = [cell.strip() for cell in row]
        if number == 0 and len(cells) == 2 and not cells[1][:1].isdigit() and cells[1][:1] != ".":
            continue
        if len(cells) == 2 and cells[0].replace(".", "", 1).isdigit():
            cells[0] += "s"
        yield cells


def _read(name: str, origin: Origin, report: OriginReport, *place: str | int) -> str | None:
    try:
        return decode(read_bytes(origin.locate(name)))
    except UsageProblem as problem:
        report.complain("no-file", problem.message, problem.hint, *place)
    except Rejected as rejected:
        report.complain(rejected.finding.code, f"{name}: {rejected.finding.message}", rejected.finding.hint, *place)
    return None
