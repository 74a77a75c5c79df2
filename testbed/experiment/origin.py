"""The origin of an experiment's values: a line of its file, or an option of the command line.

Takes key paths and offsets, gives places and findings; touches nothing. An offset also identifies its text: those of
the file begin at 0, those of the n-th setting at n × `_STRIDE`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from testbed.errors import Finding, Findings, InvalidInput, Where, error, has_errors
from testbed.experiment.keys import full_keys
from testbed.topologies.entries import Report, find_place
from testbed.topologies.marked import MarkedMap
from testbed.topologies.source import Source

_STRIDE = 1 << 40
"""Larger than any text."""
_CLOSE = 0.75
"""Similarity from which a key counts as mistyped: `modle` and `model`, but not `steps` and `stop`."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One value from the command line."""

    option: str
    """As typed: `--set training.lr=0.1`."""
    path: tuple[str, ...]
    value: str
    """Text, or YAML on one line; it ends `option`."""

    @property
    def value_at(self) -> int:
        """The offset of the value in `option`, in bytes."""
        return len(self.option.encode()) - len(self.value.encode())


@dataclass(frozen=True)
class Origin:
    """The places of an experiment's values. Without a file, findings give the key instead of a line."""

    source: Source = field(default_factory=lambda: Source("experiment", ""))
    document: MarkedMap = field(default_factory=lambda: MarkedMap(0))
    settings: tuple[Setting, ...] = ()
    attached: Mapping[str, str] = field(default_factory=dict)
    """The text of files that the experiment names, by name."""

    @property
    def file(self) -> str:
        return self.source.name

    def locate(self, name: str) -> Path:
        """A file that the experiment names: beside the experiment's file, else relative to the working directory."""
        beside = Path(self.file).parent / name
        return beside if beside.is_file() else Path(name)

    def at(self, *path: str | int) -> int:
        """The offset of the value, or of the innermost section that is written."""
        return find_place(self.document, path)[2]

    def split(self, at: int) -> tuple[Setting | None, int]:
        """The setting that an offset is in (None: the file), and the offset there."""
        number, offset = divmod(at, _STRIDE)
        return (self.settings[number - 1] if number else None), offset

    def report(self) -> OriginReport:
        """A new report without findings."""
        return OriginReport(self)


def first_offset(number: int) -> int:
    """Where the offsets of a setting begin; the first is number 0."""
    return (number + 1) * _STRIDE


class OriginReport(Report):
    """Findings about an experiment, separated by origin: the file or a setting."""

    def __init__(self, origin: Origin) -> None:
        super().__init__(origin.source, Findings())
        self.origin = origin
        self._of_settings: list[tuple[Setting, Finding]] = []

    def error(self, code: str, message: str, hint: str, at: int) -> None:
        setting, offset = self.origin.split(at)
        if setting is None:
            super().error(code, message, hint, at)
        else:
            where = Source(setting.option, setting.option).where(offset)
            self._of_settings.append((setting, error(code, message, hint, where)))

    def suggest_key(self, key: str, known: list[str], at: int) -> str:
        """Suggests a key of that name in any section, or a similar one in this section."""
        close = get_close_matches(key, known, n=1, cutoff=_CLOSE)
        setting, _ = self.origin.split(at)
        rest = setting.path[1:] if setting is not None and setting.path[0] == key else ()
        meant = [".".join((each, *rest)) for each in close] + ([] if rest else full_keys(key))
        if not meant:
            return super().suggest_key(key, known, at)
        return f"did you mean {' or '.join(f'`{each}`' for each in meant)}?"

    def complain(self, code: str, message: str, hint: str, *path: str | int) -> None:
        """Adds an error about the value at a key path."""
        name = ".".join(str(part) for part in path if isinstance(part, str))
        self.error(code, f"{name}: {message}" if name else message, hint, self.origin.at(*path))

    def problem(self, extra: Sequence[Finding] = ()) -> InvalidInput | None:
        """All errors, under the name of the file or the option; None if there are none."""
        ours = [*extra, *self.findings.all()]
        if has_errors(ours) or not self._of_settings:
            return InvalidInput(self.origin.file, ours) if has_errors(ours) else None
        options = list(dict.fromkeys(setting.option for setting, _ in self._of_settings))
        if len(options) == 1:
            return InvalidInput(options[0], [finding for _, finding in self._of_settings])
        told = [
            error(finding.code, f"{setting.option}: {finding.message}", finding.hint, Where(1, 1))
            for setting, finding in self._of_settings
        ]
        return InvalidInput("options", told)

    def raise_if_wrong(self) -> None:
        if problem := self.problem():
            raise problem
