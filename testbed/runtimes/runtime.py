"""The interface between commands and runtimes, which start the nodes of a run.

Takes nothing, gives types. A `Runtime` runs a plan. A `LiveRun` is a run that goes on, as other commands reach it.
`registry` lists the runtimes; commands know none of them by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from testbed.errors import PreflightRefused

if TYPE_CHECKING:
    from testbed.control.outcome import Outcome
    from testbed.control.progress import Tell
    from testbed.endpoints import Endpoint
    from testbed.errors import Finding
    from testbed.plan.model import DataPlaneChoice, PlannedNode, RunPlan, RuntimeFacts
    from testbed.rundir import RunDirectory, TakenRun
    from testbed.runtimes.tracking.leftovers import Removed
    from testbed.topologies.model import Topology

AUTO = "auto"
SHAPED, UNSHAPED = "fabric", "none"
"""The emulation engines of real processes: the topology's network, and plain loopback."""
UNSEEN = 0
"""Stands for the id of a process on another machine, or that this user may not inspect."""

Given = Mapping[str, object]
"""The given options of a run, by name: `time_scale` for `--time-scale`."""


@dataclass(frozen=True)
class Facts:
    """What a runtime can do. Plans record the facts that results depend on."""

    what: str
    """A few words for lists and hints: "real processes"."""
    engines: tuple[str, ...]
    """The possible emulation engines; the first one is the default."""
    is_virtual: bool
    """Runs in virtual time: without processes or packets, and nothing can be late."""
    by_default: str = ""
    """Why it is preferred to the runtimes after it in the list, if this machine supports it."""
    has_own_files: bool = False
    """Learners have files and packages of their own: code that cannot be loaded here may be loaded there."""
    plans_apart: bool = False
    """The command leads the run itself, and its memory counts: plans are made in a process of their own."""


@dataclass(frozen=True)
class RunOption:
    """An option of `deploy` that only some runtimes take. They share one equal object."""

    flag: str
    help: str
    choices: tuple[str, ...] = ()
    metavar: str | None = None
    parse: Callable[[str], object] | None = None
    """Parses the text; raises ValueError with a message."""
    is_switch: bool = False
    short: str = ""
    neutral: tuple[object, ...] = ()
    """Values that ask for nothing, besides none at all; with them, no runtime refuses the option."""
    is_planned: bool = False
    """The plan contains the value: the option is refused for an existing plan."""
    decides: bool = False
    """The option implies the runtime that takes it."""

    @property
    def name(self) -> str:
        return self.flag.removeprefix("--").replace("-", "_")

    def asks(self, value: object) -> bool:
        """Whether a runtime that does not take the option would ignore something with this value."""
        return value is not None and value is not False and value not in self.neutral


def _time_scale(text: str) -> float | None:
    """A number, or None for `auto`."""
    from testbed.plan.model import LARGEST_TIME_SCALE

    if text == AUTO:
        return None
    try:
        scale = float(text)
    except ValueError:
        raise ValueError(f"`{text}` is neither a number nor {AUTO}") from None
    if scale < 1.0:
        raise ValueError(f"{scale:g} is below 1: real time cannot be made to pass faster than it does")
    if not scale <= LARGEST_TIME_SCALE:
        raise ValueError(f"at most {LARGEST_TIME_SCALE:g}")
    return scale


ENGINE = RunOption(
    "--engine",
    "The network between the nodes: fabric emulates the topology; none uses the plain loopback, without emulation.",
    choices=(SHAPED, UNSHAPED),
    is_planned=True,
)
FABRIC = RunOption(
    "--fabric",
    "How the fabric carries packets: native is compiled, python has the same result and is about seven times slower. "
    f"{AUTO}: native where that is there.  [default: {AUTO}]",
    choices=(AUTO, "native", "python"),
    neutral=(AUTO,),
)
TIME_SCALE = RunOption(
    "--time-scale",
    "Slow a run of real processes down: an emulated second takes k real seconds, so more traffic fits. "
    f"{AUTO}: the smallest k with which this machine carries the traffic.  [default: {AUTO} with fabric, else 1]",
    metavar="auto|k",
    parse=_time_scale,
    neutral=(1.0,),
    is_planned=True,
)
DETACH = RunOption(
    "--detach", "Return once the nodes have started; the run continues in the background.", is_switch=True, short="-d"
)


class View(Protocol):
    """A command's display of a run's progress."""

    @property
    def tell(self) -> Tell: ...

    @property
    def starting(self) -> Callable[[str], None]: ...


class Console(Protocol):
    """The command that leads a run, as its runtime sees it."""

    @property
    def quiet(self) -> bool: ...

    def say(self, text: str) -> None:
        """Prints a line for the user; silent in quiet mode."""

    def end_with(self, end: Callable[[], None], *, is_bounded: bool = False) -> None:
        """Calls `end` at the first Ctrl-C or SIGTERM. `is_bounded`: SIGTERM ends the run within two seconds."""

    def watching(self) -> AbstractContextManager[View]:
        """Shows progress while entered. It may start a thread, so processes must be forked before."""


class Check(NamedTuple):
    """One line of `testbed doctor`."""

    name: str
    ok: bool
    found: str
    hint: str = ""
    required: bool = False
    """Runs of real processes need it."""


class Denial(NamedTuple):
    """Why a machine does not support a runtime, and a hint."""

    message: str
    hint: str


class Remains(Enum):
    """What exists of a run besides its results."""

    NOTHING = "nothing"
    GOES_ON = "it goes on"
    LEFT = "something was left behind"
    COPY = "a record of another run's processes, which came with a copy"


@dataclass(frozen=True)
class Checking:
    """Parameters of `Runtime.check`."""

    folder: Path
    """The future run directory."""
    given: Given
    say: Callable[[str], None]
    force: bool
    """Shortages become warnings."""
    is_fitted: bool
    """The plan's time scale was fitted to this machine."""
    dry: bool
    """Nothing will be started."""


class Runtime(ABC):
    """Starts the nodes of runs. There is one object for each runtime; it has no state."""

    name: ClassVar[str]
    facts: ClassVar[Facts]
    options: ClassVar[tuple[RunOption, ...]] = ()

    def recorded(self) -> RuntimeFacts:
        """The facts that plans record. Only runs of real processes can be judged overloaded."""
        from testbed.plan.model import RuntimeFacts

        return RuntimeFacts(is_virtual=self.facts.is_virtual, is_judged=not self.facts.is_virtual)

    # -- does this machine support it? ---------------------------------------------------------------------------------

    def unsupported(self) -> PreflightRefused | None:
        """Why this operating system does not support it, or None."""
        return None

    def why_not_default(self) -> str | None:
        """Why it is not the default here; None if it may be."""
        return None

    def denial(self, given: Given) -> Denial | None:  # noqa: ARG002
        """What this machine denies it. Found by trying, so it is called late."""
        return None

    def checks(self) -> Iterator[Check]:
        """Its lines of `testbed doctor`."""
        yield from ()

    # -- before a run --------------------------------------------------------------------------------------------------

    def ignored(self, topology: Topology, given: Given) -> Sequence[Finding]:  # noqa: ARG002
        """What the topology asks for, and this runtime would ignore."""
        return ()

    def make_ready(self, given: Given, say: Callable[[str], None]) -> None:  # noqa: B027 - most need nothing
        """Does slow work before anything is measured, such as building; raises UsageProblem for wrong options."""

    def data_plane(
        self,
        given: Given,  # noqa: ARG002
        asked: str | None,  # noqa: ARG002
        warn: Callable[[str], None],  # noqa: ARG002
    ) -> DataPlaneChoice | None:
        """The fabric's data plane; None if no run has a fabric. Raises PreflightRefused if it cannot be had."""
        return None

    @abstractmethod
    def check(self, plan: RunPlan, how: Checking) -> RunPlan:
        """The plan, completed with facts of this machine; raises PreflightRefused if the machine cannot run it."""

    def hints(self, outcome: Outcome) -> Iterator[str]:  # noqa: ARG002
        """Hints for failures that are specific to this runtime."""
        yield from ()

    # -- runs ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def run(self, plan: RunPlan, directory: TakenRun, given: Given, console: Console) -> Outcome | None:
        """Runs the plan; gives the outcome, or None if the run goes on detached, as requested."""

    @abstractmethod
    def goes_on(self, run: RunDirectory) -> bool:
        """Whether the process that leads the run exists; raises errors of the Docker Engine if that must be asked."""

    def is_seen(self, run: RunDirectory) -> bool:  # noqa: ARG002
        """Whether `goes_on` needs no Docker Engine, and is quick."""
        return True

    @abstractmethod
    def attach(self, run: RunDirectory) -> LiveRun:
        """The running run; raises UsageProblem if it does not go on, PreflightRefused if it has no live processes."""

    @abstractmethod
    def remains(self, run: RunDirectory) -> Remains:
        """What exists of the run, before its directory is used again."""

    @abstractmethod
    def destroy(self, run: RunDirectory) -> Removed:
        """Removes everything of the run but its results. A run that goes on ends in good order first. Repeatable."""

    def strays(self) -> list[RunDirectory]:
        """Runs whose directory was removed, and of which something else is left."""
        return []


class LiveRun(ABC):
    """A run that goes on."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run

    @property
    @abstractmethod
    def control(self) -> Endpoint:
        """The endpoint at which control takes commands."""

    @property
    @abstractmethod
    def fabric(self) -> Endpoint:
        """The endpoint at which the fabric takes commands; a path need not exist."""

    @abstractmethod
    def pids(self, rank: int | None = None) -> dict[int, int]:
        """By rank, a process in each living node's network; UNSEEN if this machine does not see it.

        With a rank, of that node only.
        """

    @abstractmethod
    def exec(self, node: PlannedNode, words: Sequence[str]) -> int:
        """Runs a command in a node's network: replaces this process, or gives the exit code."""

    def may_enter_networks(self) -> None:  # noqa: B027 - most may
        """Raises PreflightRefused if this user may not measure in the nodes' networks."""

    def allow_return(self, ranks: Sequence[int]) -> dict[int, int]:  # noqa: ARG002
        """Lets nodes come back once more than planned; gives the new limits by rank, if there are limits."""
        return {}

    def capture_file(self, path: Path) -> tuple[Path, Path]:
        """The file into which the fabric writes a capture for `path`, as seen by this process and by the fabric."""
        return path, path
