"""The seam between commands and whatever starts the nodes of a run.

Takes nothing, gives types. A `Runtime` makes a run of a plan. A `LiveRun` is a run that goes on, as other commands
reach it. `registry` lists the runtimes; commands know none of them by name.
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
    from testbed.plan.model import PlannedNode, RunPlan, RuntimeFacts
    from testbed.rundir import RunDirectory, TakenRun
    from testbed.runtimes.tracking.leftovers import Removed
    from testbed.topologies.model import Topology

AUTO = "auto"
UNSHAPED = "none"
"""The engine that shapes nothing: plain loopback."""
UNSEEN = 0
"""In place of the id of a process that is on another machine, or that this user cannot look at."""

Given = Mapping[str, object]
"""The options of a run that were given, by name: `time_scale` for `--time-scale`."""


@dataclass(frozen=True)
class Facts:
    """What a runtime can and cannot do. Plans record those that results depend on."""

    what: str
    """A few words for lists and hints: "real processes"."""
    engines: tuple[str, ...]
    """What may carry the nodes' packets; the first one does unless another is asked for."""
    is_virtual: bool
    """Emulated time passes from event to event: no process, no packet, and nothing can come too late."""
    by_default: str = ""
    """Why it goes before the runtimes behind it, where this machine can have it."""
    has_own_files: bool = False
    """Its learners have files and packages of their own: what cannot be loaded here may be loaded there."""


@dataclass(frozen=True)
class RunOption:
    """An option of `deploy` that only some runtimes take. Equal for all that take it."""

    flag: str
    help: str
    choices: tuple[str, ...] = ()
    metavar: str | None = None
    parse: Callable[[str], object] | None = None
    """Raises ValueError with what is wrong."""
    is_switch: bool = False
    short: str = ""
    neutral: tuple[object, ...] = (None, False)
    """Values that ask for nothing, and so are no reason to refuse the option."""
    is_planned: bool = False
    """What it says is in the plan: it cannot be said again of a plan that is there."""
    decides: bool = False
    """Whoever gives it wants the runtime that takes it."""

    @property
    def name(self) -> str:
        return self.flag.removeprefix("--").replace("-", "_")


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


TIME_SCALE = RunOption(
    "--time-scale",
    "How many times longer everything takes in real time, where nodes are real; "
    f"{AUTO}: as little as lets this machine carry the traffic.  [default: {AUTO} with fabric, else 1]",
    metavar="auto|k",
    parse=_time_scale,
    neutral=(None, 1.0),
    is_planned=True,
)
DETACH = RunOption("--detach", "Return as soon as the nodes have begun; the run goes on.", is_switch=True, short="-d")


class View(Protocol):
    """How a command shows that a run goes on."""

    @property
    def tell(self) -> Tell: ...

    @property
    def starting(self) -> Callable[[str], None]: ...


class Console(Protocol):
    """The command that leads a run, as its runtime sees it."""

    @property
    def quiet(self) -> bool: ...

    def say(self, text: str) -> None:
        """A line for the user, unless nothing but mistakes is to be said."""

    def end_with(self, end: Callable[[], None], *, is_bounded: bool = False) -> None:
        """The first Ctrl-C or SIGTERM calls `end`. `is_bounded`: SIGTERM ends the run in two seconds, come what may."""

    def watching(self) -> AbstractContextManager[View]:
        """Progress is shown while this is entered. It may start a thread: processes must be forked before."""


class Check(NamedTuple):
    """One line of `testbed doctor`."""

    name: str
    ok: bool
    found: str
    hint: str = ""
    required: bool = False
    """Without it no run of real processes is what was asked for."""


class Denial(NamedTuple):
    """Why a machine cannot have a runtime, and what would help."""

    message: str
    hint: str


class Remains(Enum):
    """What there is of a run besides its results."""

    NOTHING = "nothing"
    GOES_ON = "it goes on"
    LEFT = "something was left behind"
    COPY = "a record of another run's processes, which came with a copy"


@dataclass(frozen=True)
class Checking:
    """How `Runtime.check` is to look at a plan."""

    folder: Path
    """Where the run directory will be."""
    given: Given
    say: Callable[[str], None]
    force: bool
    """Shortages become warnings."""
    is_fitted: bool
    """This machine has chosen the plan's time scale."""
    dry: bool
    """Nothing will be started."""


class Runtime(ABC):
    """Starts the nodes of runs. One object a runtime; it has no state."""

    name: ClassVar[str]
    facts: ClassVar[Facts]
    options: ClassVar[tuple[RunOption, ...]] = ()

    def recorded(self) -> RuntimeFacts:
        """What plans record of it. Only control of real processes can see whether they kept up."""
        from testbed.plan.model import RuntimeFacts

        return RuntimeFacts(is_virtual=self.facts.is_virtual, is_judged=not self.facts.is_virtual)

    # -- may this machine have it? -------------------------------------------------------------------------------------

    def unsupported(self) -> PreflightRefused | None:
        """Why this operating system cannot have it."""
        return None

    def why_not_default(self) -> str | None:
        """Why `deploy` passes it over unless it is asked for; None where it may be the default."""
        return None

    def denial(self, given: Given) -> Denial | None:  # noqa: ARG002
        """What this machine denies of it; tried by doing, and so asked for late."""
        return None

    def checks(self) -> Iterator[Check]:
        """What `doctor` says of it."""
        yield from ()

    # -- before a run --------------------------------------------------------------------------------------------------

    def ignored(self, topology: Topology, given: Given) -> Sequence[Finding]:  # noqa: ARG002
        """What a topology asks for that this runtime would silently leave out."""
        return ()

    def make_ready(self, given: Given, say: Callable[[str], None]) -> None:  # noqa: B027 - most need nothing
        """What takes the machine's time is done before anything is measured; raises UsageProblem for wrong options."""

    @abstractmethod
    def check(self, plan: RunPlan, how: Checking) -> RunPlan:
        """The plan, completed with what this machine has for it; raises PreflightRefused where it has too little."""

    def hints(self, outcome: Outcome) -> Iterator[str]:  # noqa: ARG002
        """What would help where a run failed for a reason that has to do with this runtime."""
        yield from ()

    # -- runs ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def run(self, plan: RunPlan, directory: TakenRun, given: Given, console: Console) -> Outcome | None:
        """How the run ended; None where it goes on without the command, as was asked."""

    @abstractmethod
    def goes_on(self, run: RunDirectory) -> bool:
        """Whether the process that leads the run is there; raises what a Docker Engine says that has to be asked."""

    def is_seen(self, run: RunDirectory) -> bool:  # noqa: ARG002
        """Whether `goes_on` can look for itself, and so is quick."""
        return True

    @abstractmethod
    def attach(self, run: RunDirectory) -> LiveRun:
        """Raises UsageProblem for a run that does not go on, PreflightRefused for one that can never be attached to."""

    @abstractmethod
    def remains(self, run: RunDirectory) -> Remains:
        """What there is of the run, before its directory is used again."""

    @abstractmethod
    def destroy(self, run: RunDirectory) -> Removed:
        """Nothing of the run is left but its results; one that goes on ends in good order first. May be repeated."""

    def strays(self) -> list[RunDirectory]:
        """Runs whose directory is gone, and something else of them is not."""
        return []


class LiveRun(ABC):
    """A run that goes on."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run

    @property
    @abstractmethod
    def control(self) -> Endpoint:
        """Where control takes commands."""

    @property
    @abstractmethod
    def fabric(self) -> Endpoint:
        """Where the fabric takes commands; a path may lead to none."""

    @abstractmethod
    def pids(self, rank: int | None = None) -> dict[int, int]:
        """Of living nodes, by rank, processes that are in their networks; UNSEEN where this machine does not see them.

        Of one node only, if a rank is given.
        """

    @abstractmethod
    def exec(self, node: PlannedNode, words: Sequence[str]) -> int:
        """A command in the network of a node: this process becomes it, or gives its exit code."""

    def may_enter_networks(self) -> None:  # noqa: B027 - most may
        """Raises PreflightRefused where this user may not measure in the nodes' networks."""

    def allow_return(self, ranks: Sequence[int]) -> dict[int, int]:  # noqa: ARG002
        """Nodes may come back once more than planned; by rank, how often in all, where anything limits that."""
        return {}

    def capture_file(self, path: Path) -> tuple[Path, Path]:
        """Where the fabric is to write a capture meant for `path`: as this process, and as the fabric sees it."""
        return path, path
