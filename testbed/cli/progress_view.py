"""Shows how far a run is: a moving line on a terminal, a plain line now and then elsewhere, or nothing.

Takes `Progress`, writes to stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from testbed.runtimes.progress import Progress
from testbed.runtimes.sim.run import Tell

_PLAIN_EVERY_S = 5.0


@contextmanager
def progress_view(*, quiet: bool) -> Iterator[Tell]:
    """What to tell of the run's progress, for as long as it goes on."""
    if quiet:
        yield lambda _progress: None
    elif sys.stderr.isatty():
        with _moving() as tell:
            yield tell
    else:
        yield _Lines().tell


class _Figures(ProgressColumn):
    """The run's figures, as the task carries them."""

    def render(self, task: Task) -> Text:
        return Text(str(task.fields.get("figures", "")))


@contextmanager
def _moving() -> Iterator[Tell]:
    began = monotonic()
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), _Figures())
    with Bar(*columns, console=console, transient=True, refresh_per_second=5) as bar:
        task = bar.add_task("starting", total=None, figures="")

        def tell(progress: Progress) -> None:
            share = progress.share
            bar.update(
                task,
                description=_rounds(progress),
                total=None if share is None else 1.0,
                completed=share or 0.0,
                figures=_figures(progress, monotonic() - began),
            )

        yield tell


class _Lines:
    """A line every few seconds, for logs."""

    def __init__(self) -> None:
        self._began = monotonic()
        self._last = -_PLAIN_EVERY_S

    def tell(self, progress: Progress) -> None:
        now = monotonic()
        if now - self._last >= _PLAIN_EVERY_S:
            self._last = now
            print(f"{_rounds(progress)}  {_figures(progress, now - self._began)}", file=sys.stderr)  # noqa: T201


def _rounds(progress: Progress) -> str:
    of = f"/{progress.rounds_planned}" if progress.rounds_planned else ""
    return f"round {progress.rounds}{of}"


def _figures(progress: Progress, real_s: float) -> str:
    parts = [f"{progress.nodes} nodes"]
    if progress.accuracy is not None:
        parts.append(f"accuracy {progress.accuracy:.3f}")
    elif progress.loss is not None:
        parts.append(f"loss {progress.loss:.3f}")
    parts.append(f"sent {in_bytes(progress.bytes_sent)}")
    parts.append(f"emulated {in_time(progress.t)}")
    parts.append(f"real {in_time(real_s)}")
    share = progress.share
    if share:
        parts.append(f"left {in_time(real_s * (1 - share) / share)}")
    return " · ".join(parts)


def in_bytes(count: float) -> str:
    """A number of bytes as people read it."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def in_time(seconds: float) -> str:
    """A duration as people read it."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m"
