"""Findings about an input, and exceptions with exit codes.

Takes nothing, gives types, touches nothing.

    TestbedError                1  a bug of ours
    ├── UsageProblem            2  the command line asks for something that is not there
    ├── InvalidInput            3  a topology with errors; carries its findings
    ├── PreflightRefused        4  this machine, as it is now, cannot do what was asked
    ├── CouldNotStart           5  a process that the run needs could not be started
    ├── RunBroken               6  a run that had begun could not go on
    ├── CannotExecute    126, 127  the command for a node's network cannot be executed, or is not there
    └── IncompleteResults       8  a run left less than its plan promised; what there is was printed
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple


class ExitCode(IntEnum):
    """The exit status of every command."""

    OK = 0
    BUG = 1
    USAGE = 2
    INVALID_INPUT = 3
    REFUSED = 4
    """The preflight refused: nothing was started."""
    NOT_STARTED = 5
    """A process of the run could not be started, or ended before any node began."""
    NODE_FAILED = 6
    """A node, or the whole run, failed, and no event had planned that."""
    NOT_AS_ASKED = 7
    """The network was not the one asked for, or this machine could not sustain the run."""
    INCOMPLETE = 8
    """Results are printed, but some are missing."""
    NOT_EXECUTABLE = 126
    """Of `exec`, as of a shell: the command cannot be executed."""
    NOT_FOUND = 127
    """Of `exec`, as of a shell: there is no such command."""
    INTERRUPTED = 130
    BROKEN_PIPE = 141
    """The reader of the output stopped reading; as for any Unix command."""


class Severity(StrEnum):
    """How much a finding matters for running the file."""

    ERROR = "error"
    """The file cannot be used as it stands."""
    WARNING = "warning"
    """It can be used; check this before trusting the results."""
    NOTE = "note"
    """The meaning is clear here, but another tool that reads the same file would do something else."""


class Where(NamedTuple):
    """A place in a file, counted from 1."""

    line: int
    column: int


START = Where(1, 1)


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem of an input: its place, what is wrong, and how to fix it.

    Safe to print: it contains no control characters of the file.
    """

    severity: Severity
    code: str
    message: str
    hint: str = ""
    where: Where = START

    def __post_init__(self) -> None:
        for name in ("message", "hint"):
            text = getattr(self, name)
            if not text.isprintable():
                object.__setattr__(self, name, "".join(char if char.isprintable() else "\ufffd" for char in text))


def error(code: str, message: str, hint: str = "", where: Where | None = None) -> Finding:
    return Finding(Severity.ERROR, code, message, hint, where or START)


def warning(code: str, message: str, hint: str = "", where: Where | None = None) -> Finding:
    return Finding(Severity.WARNING, code, message, hint, where or START)


def note(code: str, message: str, hint: str = "", where: Where | None = None) -> Finding:
    return Finding(Severity.NOTE, code, message, hint, where or START)


class Findings:
    """Collects findings; above a limit, those of one kind are only counted."""

    MOST = 1000
    MOST_SUGGESTIONS = 50

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._count: Counter[tuple[Severity, str]] = Counter()
        self._suggested = 0

    def add(self, finding: Finding) -> None:
        kind = (finding.severity, finding.code)
        self._count[kind] += 1
        if self._count[kind] <= self.MOST:
            self._kept.append(finding)

    def extend(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self.add(finding)

    def suggest(self, word: str, known: Iterable[str]) -> str:
        """`did_you_mean` for the first few calls: searching among many words is slow."""
        self._suggested += 1
        return did_you_mean(word, known) if self._suggested <= self.MOST_SUGGESTIONS else ""

    def all(self) -> list[Finding]:
        """Findings by place; for every kind above its limit, a last one says how many are left out."""
        more = [
            Finding(severity, "many-more", f"{count - self.MOST} more like those called {code}")
            for (severity, code), count in self._count.items()
            if count > self.MOST
        ]
        once = dict.fromkeys(self._kept)  # the two directions of a link have the same findings
        return sorted(once, key=lambda finding: finding.where) + more


def has_errors(findings: Iterable[Finding]) -> bool:
    return any(finding.severity is Severity.ERROR for finding in findings)


def closest(word: str, known: Iterable[str]) -> str | None:
    """The most similar known word, if any is similar enough."""
    from difflib import get_close_matches  # not needed by processes that must start quickly

    return next(iter(get_close_matches(word, sorted(set(known))[:2000], n=1, cutoff=0.6)), None)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint that names the closest known word, or all of them when none is close and they are few."""
    choices = sorted(set(known))
    if close := closest(word, choices):
        return f"did you mean `{close}`?"
    if choices and len(choices) <= 12:
        return "known here: " + ", ".join(choices)
    return ""


class TestbedError(Exception):
    """Base of all exceptions that this package raises on purpose; `exit_code` is the command's exit status."""

    __test__ = False  # the name starts with "Test"; pytest would try to collect it
    exit_code: ExitCode = ExitCode.BUG

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageProblem(TestbedError):
    """The command line names a file, node or option that does not exist."""

    exit_code = ExitCode.USAGE


class CannotExecute(TestbedError):
    """The command for a node's network cannot be executed, or is not there."""

    def __init__(self, message: str, hint: str = "", *, is_there: bool) -> None:
        super().__init__(message, hint)
        self.exit_code = ExitCode.NOT_EXECUTABLE if is_there else ExitCode.NOT_FOUND


class IncompleteResults(TestbedError):
    """Results were printed; some of what should be in them is missing."""

    exit_code = ExitCode.INCOMPLETE


class InvalidInput(TestbedError):
    """An input file has errors; all of them are in `findings`."""

    exit_code = ExitCode.INVALID_INPUT

    def __init__(self, file: str, findings: Sequence[Finding]) -> None:
        errors = sum(finding.severity is Severity.ERROR for finding in findings)
        super().__init__(f"{file}: {errors} error{'s' if errors != 1 else ''}")
        self.file = file
        self.findings = tuple(findings)


class PreflightRefused(TestbedError):
    """The input is fine, but this machine, as it is now, cannot do what was asked; nothing was started."""

    exit_code = ExitCode.REFUSED


class CouldNotStart(TestbedError):
    """A process, descriptor or folder that the run needs could not be made, or such a process ended at once."""

    exit_code = ExitCode.NOT_STARTED


class RunBroken(TestbedError):
    """A run that had begun could not go on, or could not report its end."""

    exit_code = ExitCode.NODE_FAILED
