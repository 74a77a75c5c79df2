"""Shows the progress of a run: a moving line on a terminal, elsewhere a plain line now and then, or nothing.

Takes `Progress`, and messages before there is any; writes to stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from testbed.control.progress import Progress, Tell
from testbed.units import size_for_people

_PLAIN_EVERY_S = 5.0
_BETWEEN = " · "


def _be_silent(_words: str) -> None:
    pass


@dataclass(frozen=True)
class View:
    """Callbacks of a run for its display."""

    tell: Tell
    starting: Callable[[str], None] = _be_silent
    """Shows what the run does before it begins, on a terminal only."""


@contextmanager
def progress_view(*, quiet: bool) -> Iterator[View]:
    """The view of a run's progress while it is entered."""
    if quiet:
        yield View(lambda _progress: None)
    elif sys.stderr.isatty():
        moving = _Moving()
        # Its thread keeps the line up to date while the run waits; nothing may be forked from now on.
        with Live(moving, console=Console(stderr=True), transient=True, refresh_per_second=5):
            yield View(moving.tell, moving.starting)
    else:
        yield View(_Lines().tell)


class _Pace:
    """Estimates the remaining time from the progress since the first call, so that starting does not count."""

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None

    def left_s(self, share: float | None, real_s: float) -> float | None:
        """The remaining seconds; None while there is no progress to estimate from."""
        if share is None:
            return None
        if self._first is None:
            self._first = (share, real_s)
        done, passed_s = share - self._first[0], real_s - self._first[1]
        return passed_s * (1.0 - share) / done if done > 0.0 else None


class _Moving:
    """One line within the terminal's width, redrawn several times a second."""

    def __init__(self) -> None:
        self._began = monotonic()
        self._starting = "starting"
        self._newest: Progress | None = None
        self._pace = _Pace()
        self._left_s: float | None = None

    def tell(self, progress: Progress) -> None:
        self._newest = progress
        self._left_s = self._pace.left_s(progress.share, monotonic() - self._began)

    def starting(self, words: str) -> None:
        self._starting = words

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        real_s = monotonic() - self._began
        line = f"{self._starting}{_BETWEEN}real {in_time(real_s)}"
        if self._newest is not None:
            line = progress_line(self._newest, real_s, self._left_s, options.max_width)
        yield Text(line, no_wrap=True, overflow="ellipsis")


class _Lines:
    """A line every few seconds, for logs, from the first complete round on."""

    def __init__(self) -> None:
        self._began = monotonic()
        self._last = self._began - _PLAIN_EVERY_S
        self._said_nothing = True
        self._pace = _Pace()

    def tell(self, progress: Progress) -> None:
        now = monotonic()
        left_s = self._pace.left_s(progress.share, now - self._began)
        if now - self._last < _PLAIN_EVERY_S:
            return
        if self._said_nothing and not progress.rounds and now - self._began < _PLAIN_EVERY_S:
            return
        self._said_nothing = False
        self._last = now
        print(progress_line(progress, now - self._began, left_s), file=sys.stderr, flush=True)  # noqa: T201


def progress_line(progress: Progress, real_s: float, left_s: float | None = None, width: int | None = None) -> str:
    """The run's figures; those of least importance are left out if they do not fit the width."""
    share = progress.share
    of = f"/{progress.rounds_planned}" if progress.rounds_planned else ""
    done = "" if share is None else f" ({100 * share:.0f} %)"
    score = ""
    if progress.accuracy is not None:
        score = f"accuracy {progress.accuracy:.3f}"
    elif progress.loss is not None:
        score = f"loss {progress.loss:.3f}"
    figures = [  # with their importance
        (0, f"round {progress.rounds}{of}{done}"),
        (4, _nodes(progress)),
        (1, score),
        (3, f"sent {size_for_people(progress.bytes_sent)}"),
        (5, f"emulated {in_time(progress.t)}"),
        (6, f"real {in_time(real_s)}"),
        (2, "" if left_s is None else f"left {in_time(left_s)}"),
    ]
    figures = [each for each in figures if each[1]]
    while len(figures) > 1 and width is not None and cell_len(_joined(figures)) > width:
        figures.remove(max(figures))
    return _joined(figures)


def _nodes(progress: Progress) -> str:
    """The number of live nodes; finished nodes are not counted as dead."""
    if progress.done and not progress.nodes:
        return f"{in_number(progress.done, 'node')} done"
    return in_number(progress.nodes, "node") + (f", {progress.done} done" if progress.done else "")


def _joined(figures: list[tuple[int, str]]) -> str:
    return _BETWEEN.join(words for _, words in figures)


def in_number(count: int, what: str) -> str:
    """A number with its noun, in the plural unless it is one."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def in_time(seconds: float) -> str:
    """A duration in hours, minutes and seconds."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m"
