"""Shows the progress of a build: a moving line on a terminal, elsewhere a line for every slow step, or nothing.

Takes `Progress`, writes to stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

import click
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from testbed.image.build_stream import Progress, Tell


@dataclass(frozen=True)
class View:
    """Callbacks of a build: its progress, and messages."""

    tell: Tell
    say: Callable[[str], None]


@contextmanager
def build_view(*, quiet: bool) -> Iterator[View]:
    """The view of a build while it is entered."""
    if quiet:
        yield View(lambda _progress: None, lambda _words: None)
    elif sys.stderr.isatty():
        moving = _Moving()
        console = Console(stderr=True, highlight=False)
        with Live(moving, console=console, transient=True, refresh_per_second=5):
            yield View(moving.tell, lambda words: console.print(Text(words)))
    else:
        yield View(_plain, lambda words: click.echo(words, err=True))


def _plain(progress: Progress) -> None:
    """Prints slow steps only; the others end at once and would clutter a log."""
    if progress.is_step and progress.text.startswith("RUN "):
        click.echo(_line(progress), err=True)


def _line(progress: Progress) -> str:
    return f"step {progress.step}/{progress.steps}: {progress.text}"


class _Moving:
    def __init__(self) -> None:
        self._began = monotonic()
        self._step = "starting"
        self._said = ""

    def tell(self, progress: Progress) -> None:
        if progress.is_step:
            self._step, self._said = _line(progress), ""
        else:
            self._said = _line(progress).partition(": ")[2]

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        seconds = monotonic() - self._began
        words = f"{seconds:.0f}s · {self._step}" + (f" · {self._said}" if self._said else "")
        text = Text(words, no_wrap=True, overflow="ellipsis")
        text.truncate(options.max_width, overflow="ellipsis")
        yield text
