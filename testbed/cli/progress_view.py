"""Shows how far a run is: a moving line on a terminal, a plain line now and then elsewhere, or nothing.

Takes `Progress`, writes to stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from testbed.control.progress import Progress, Tell
from testbed.units import size_for_people

_PLAIN_EVERY_S = 5.0
_BETWEEN = " · "


@contextmanager
def progress_view(*, quiet: bool) -> Iterator[Tell]:
    """What to tell of the run's progress, for as long as it goes on."""
    if quiet:
        yield lambda _progress: None
    elif sys.stderr.isatty():
        moving = _Moving()
        # Its thread keeps the line up to date while the run waits; nothing may be forked from now on.
        with Live(moving, console=Console(stderr=True), transient=True, refresh_per_second=5):
            yield moving.tell
    else:
        yield _Lines().tell


class _Moving:
    """One line, as wide as the terminal allows, that is drawn anew several times a second."""

    def __init__(self) -> None:
        self._began = monotonic()
        self._newest: Progress | None = None

    def tell(self, progress: Progress) -> None:
        self._newest = progress

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        real_s = monotonic() - self._began
        line = f"starting{_BETWEEN}real {in_time(real_s)}"
        if self._newest is not None:
            line = progress_line(self._newest, real_s, options.max_width)
        yield Text(line, no_wrap=True, overflow="ellipsis")


class _Lines:
    """A line every few seconds, for logs: from the first whole round on."""

    def __init__(self) -> None:
        self._began = monotonic()
        self._last = self._began - _PLAIN_EVERY_S
        self._said_nothing = True

    def tell(self, progress: Progress) -> None:
        now = monotonic()
        if now - self._last < _PLAIN_EVERY_S:
            return
        if self._said_nothing and not progress.rounds and now - self._began < _PLAIN_EVERY_S:
            return
        self._said_nothing = False
        self._last = now
        print(progress_line(progress, now - self._began), file=sys.stderr, flush=True)  # noqa: T201


def progress_line(progress: Progress, real_s: float, width: int | None = None) -> str:
    """The run's figures; where they are too many for the width, those that matter least are left out."""
    share = progress.share
    of = f"/{progress.rounds_planned}" if progress.rounds_planned else ""
    done = "" if share is None else f" ({100 * share:.0f} %)"
    score = ""
    if progress.accuracy is not None:
        score = f"accuracy {progress.accuracy:.3f}"
    elif progress.loss is not None:
        score = f"loss {progress.loss:.3f}"
    figures = [  # with how much they matter
        (0, f"round {progress.rounds}{of}{done}"),
        (4, in_number(progress.nodes, "node")),
        (1, score),
        (3, f"sent {size_for_people(progress.bytes_sent)}"),
        (5, f"emulated {in_time(progress.t)}"),
        (6, f"real {in_time(real_s)}"),
        (2, f"left {in_time(real_s * (1 - share) / share)}" if share else ""),
    ]
    figures = [each for each in figures if each[1]]
    while len(figures) > 1 and width is not None and cell_len(_joined(figures)) > width:
        figures.remove(max(figures))
    return _joined(figures)


def _joined(figures: list[tuple[int, str]]) -> str:
    return _BETWEEN.join(words for _, words in figures)


def in_number(count: int, what: str) -> str:
    """So many of something, in the plural but for one."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def in_time(seconds: float) -> str:
    """A duration as people read it."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m"
