"""An experiment file and settings → one validated `Experiment`, or findings at their places.

Takes a path and settings, gives a `LoadedExperiment`; reads the file and the files that it names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from testbed.errors import Finding, Findings, InvalidInput, error, has_errors
from testbed.experiment.attached import attach
from testbed.experiment.choices import Section
from testbed.experiment.language import Algorithm, Data, Experiment, Model, Overlay, Partition, Sharing
from testbed.experiment.origin import Origin, OriginReport, Setting, first_offset
from testbed.topologies.language import Document
from testbed.topologies.marked import MarkedMap, Value
from testbed.topologies.read_yaml import Wording, read_yaml
from testbed.topologies.source import Form, Rejected, Source, decode, form_of, read_bytes
from testbed.units import is_text, shown

_WORDING = Wording("an experiment", "begin with `topology:`")
_SECTIONS: tuple[tuple[str, type[Section]], ...] = (
    ("overlay", Overlay),
    ("partition", Partition),
    ("algorithm", Algorithm),
    ("sharing", Sharing),
    ("data", Data),
    ("model", Model),
)
_ONE_WORD = {name: section.one_word for name, section in _SECTIONS}
"""Sections that may be written as one word, and the key that gets it."""
_STAYS = {
    "overlay": {"dynamic", "peers", "sampler"},
    "partition": set[str](),
    "algorithm": {"server"},
    "sharing": set[str](),
    "data": {"partition"},
    "model": set[str](),
}
"""Keys that a section keeps when a setting changes its choice."""


@dataclass(frozen=True)
class LoadedExperiment:
    """The result of reading a file and settings. `experiment` is None if there are errors."""

    file: str
    experiment: Experiment | None
    findings: tuple[Finding, ...]
    """About the file."""
    origin: Origin
    problem: InvalidInput | None = None

    def require(self) -> Experiment:
        """The experiment; raises InvalidInput with all errors."""
        if self.experiment is None:
            raise self.problem or InvalidInput(self.file, self.findings)
        return self.experiment


def is_experiment(path: str | Path) -> bool:
    """Whether a file is an experiment rather than a topology: YAML with keys of experiments and none of topologies."""
    if form_of(path) is not Form.YAML:
        return False
    try:
        text = decode(read_bytes(Path(path)))
    except Rejected:
        return False
    try:
        keys = set(read_yaml(Source(str(path), text), Findings(), _WORDING))
    except Rejected:  # not valid YAML, so its lines decide
        keys = set(re.findall(r"^([a-z_]+)\s*:", text, re.MULTILINE))
    required = {name for name, field in Document.model_fields.items() if field.is_required()}
    return bool(keys & set(Experiment.model_fields)) and not keys & required


def load_experiment(path: str | Path, settings: Iterable[Setting] = ()) -> LoadedExperiment:
    """Reads a file, with settings that replace or add values."""
    findings = Findings()
    source = Source(str(path), "")
    try:
        source = Source(str(path), decode(read_bytes(Path(path))))
        document = read_yaml(source, findings, _WORDING)
    except Rejected as rejected:
        findings.add(rejected.finding)
        return LoadedExperiment(str(path), None, tuple(findings.all()), Origin(source))
    return _finish(source, document, tuple(settings), findings)


def experiment_on(topology: str, settings: Iterable[Setting] = ()) -> LoadedExperiment:
    """The default experiment on a topology, with settings."""
    document = MarkedMap(0)
    document.put("topology", topology, 0, 0)
    return _finish(Source(topology, ""), document, tuple(settings), Findings())


def setting(text: str) -> Setting:
    """Parses `training.lr=0.1`, as given with `--set`; malformed settings are reported by `load_experiment`."""
    key, equals, value = text.partition("=")
    return Setting(f"--set {text}", tuple(key.split(".")) if equals else (), value)


def _finish(source: Source, document: MarkedMap, settings: tuple[Setting, ...], findings: Findings) -> LoadedExperiment:
    read = tuple(findings.all())
    if unreadable := [each.option for each in settings if not is_text(each.option)]:
        hint = "type it as UTF-8: this terminal, or what made the command, uses another encoding"
        refused = InvalidInput(shown(unreadable[0]), [error("encoding", "this is no Unicode text", hint)])
        return LoadedExperiment(source.name, None, read, Origin(source, document), refused)
    first = OriginReport(Origin(source, document, settings))
    for number, each in enumerate(settings):
        document = _apply(document, each, number, first)
    origin = Origin(source, document, settings)
    report = OriginReport(origin)
    experiment = report.entry(Experiment, document, document.at, "an experiment")
    texts: dict[str, str] = {}
    if experiment is not None:
        experiment, texts = attach(experiment, origin, report)
    problem = first.problem(read) or report.problem(read)
    found = (*read, *report.findings.all())
    wrong = problem is not None or has_errors(found)
    return LoadedExperiment(source.name, None if wrong else experiment, found, replace(origin, attached=texts), problem)


@dataclass(frozen=True)
class _ShiftedSource(Source):
    """A text whose offsets are shifted to those of a setting."""

    shift: int = 0

    def byte_offset(self, character: int) -> int:
        return super().byte_offset(character) + self.shift


def _apply(document: MarkedMap, setting: Setting, number: int, report: OriginReport) -> MarkedMap:
    """The document with the setting applied; unchanged, and a finding, if it is malformed."""
    start = first_offset(number)
    if not setting.path or not all(setting.path):
        report.error("bad-setting", "this is not KEY=VALUE", "write --set training.lr=0.1", start)
        return document
    before = "v: "
    source = _ShiftedSource(setting.option, before + setting.value, start + setting.value_at - len(before))
    try:
        value = read_yaml(source, Findings(), _WORDING)["v"]
    except Rejected as rejected:
        report.error(rejected.finding.code, rejected.finding.message, rejected.finding.hint, start + setting.value_at)
        return document
    key_at = start + setting.option.find(setting.path[0])
    return _with(document, setting.path, value, key_at, start + setting.value_at)


def _with(holder: MarkedMap, path: tuple[str, ...], value: Value, key_at: int, value_at: int) -> MarkedMap:
    """A copy with another value at a path; missing sections on the path are created."""
    copy = _copied(holder)
    key, *rest = path
    if rest:
        value = _with(_as_map(key, holder.get(key), value_at), tuple(rest), value, key_at, value_at)
        if key in _STAYS and rest == [_ONE_WORD[key]]:
            value = _after_choosing(key, holder.get(key), value)
        place = holder.place(key) if key in holder else (key_at, value_at)
    else:
        place = (key_at, value_at)
    copy.put(key, value, *place)
    return copy


def _copied(holder: MarkedMap, keys: Iterable[str] | None = None) -> MarkedMap:
    copy = MarkedMap(holder.at)
    for key in holder if keys is None else keys:
        copy.put(key, holder[key], *holder.place(key))
    return copy


def _as_map(key: str, value: Value, at: int) -> MarkedMap:
    if isinstance(value, MarkedMap):
        return value
    section = MarkedMap(at)
    if isinstance(value, str) and key in _ONE_WORD:
        section.put(_ONE_WORD[key], value, at, at)
    return section


def _after_choosing(section: str, before: Value, after: MarkedMap) -> MarkedMap:
    """Drops the options of the previous choice if a setting changes it."""
    chosen = _ONE_WORD[section]
    was = before.get(chosen) if isinstance(before, Mapping) else before
    if was is None or was == after[chosen]:
        return after
    return _copied(after, [key for key in after if key == chosen or key in _STAYS[section]])
