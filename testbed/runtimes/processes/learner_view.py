"""What the learners of a run see of this machine's files: what they need, and nothing else.

Takes a plan and where its run is, gives places; looks at folders. They need the system's own folders, the interpreter
and its packages, the folders of the code that the plan names, and the data sets; all that read-only. The environment
variable TESTBED_VISIBLE adds more, separated by colons.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import distributions
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from testbed.code import FOLDERS, VISIBLE
from testbed.errors import UsageProblem
from testbed.experiment.attached import own_code, own_files
from testbed.isolation.sandbox import LearnerUser, Sandbox
from testbed.isolation.view import PathKind, VisiblePath
from testbed.node.data.store import cache_folder
from testbed.plan.model import RunPlan
from testbed.rundir import RunDirectory, is_run
from testbed.runtimes.enter import HOSTS
from testbed.runtimes.tracking.process_records import PREFIX, Places

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix/store", "/gnu/store")
_DEVICES = ("null", "zero", "full", "random", "urandom", "net/tun")
_HARDWARE = "/sys/devices/system"
"""How many processors there are, which libraries for arithmetic ask."""
_TMP, _SHARED_MEMORY = "/tmp", "/dev/shm"  # noqa: S108 - empty ones of their own


class _DirInfo(msgspec.Struct):
    editable: bool = False


class _DirectUrl(msgspec.Struct):
    """PEP 610: where an installed package comes from."""

    url: str
    dir_info: _DirInfo | None = None


def sandbox_of(plan: RunPlan, places: Places, user: LearnerUser | None, *, has_network: bool) -> Sandbox:
    """Learners have no home: what libraries keep in one goes with the node."""
    shared = _seen_by_all(plan, places)
    environment = {"HOME": _TMP, "TMPDIR": _TMP, "TESTBED_DATA": str(_data()), "PYTHONUSERBASE": site.getuserbase()}
    return Sandbox((*shared, *_seen_by_zygote(places)), shared, user, environment, has_network)


def _seen_by_all(plan: RunPlan, places: Places) -> tuple[VisiblePath, ...]:
    """What every node of the run sees, and the process that they are forked from."""
    folders = [*_interpreter(), *_packages(), *_code(plan), str(_data()), *shown_too()]
    own = [
        VisiblePath(path, is_own=not _is_system(path)) for path in map(os.path.abspath, folders) if os.path.exists(path)
    ]
    made = [VisiblePath(path, PathKind.EMPTY) for path in (_TMP, _SHARED_MEMORY)]
    devices = [VisiblePath(f"/dev/{name}") for name in _DEVICES]
    # What comes later counts: other runs and their sockets are hidden, though they lie below what is seen.
    hidden = [*_other_runs(places.run, folders), *_sockets(places)]
    return (*map(VisiblePath, _SYSTEM), *own, VisiblePath(_HARDWARE), *devices, *made, *hidden)


def _is_system(path: str) -> bool:
    return any(Path(path).resolve().is_relative_to(Path(each).resolve()) for each in _SYSTEM)


def _seen_by_zygote(places: Places) -> tuple[VisiblePath, ...]:
    """What of the run the process needs that nodes are forked from."""
    run = places.run
    return (
        VisiblePath(str(run.plan.resolve()), is_own=True),
        VisiblePath(str(run.nodes.resolve()), PathKind.WRITE, is_own=True),
        VisiblePath(str(places.sockets / "nodes"), PathKind.WRITE, is_own=True),
        VisiblePath(str(places.control_socket), PathKind.WRITE, is_own=True),
        VisiblePath(str(places.slots), is_own=True),
        VisiblePath(HOSTS, source=str(places.hosts)),
    )


def _interpreter() -> Iterator[str]:
    yield from (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)
    yield os.path.dirname(os.path.realpath(sys.executable))
    # Libraries from elsewhere: those of the interpreter itself, and what the environment says.
    yield from _listed("LD_LIBRARY_PATH")
    with open("/proc/self/maps") as maps:
        mapped = {line.split(maxsplit=5)[-1].strip() for line in maps if "/" in line}
    seen = tuple(f"{folder.rstrip('/')}/" for folder in (*_SYSTEM, sys.prefix, sys.base_prefix))
    # One by one, but for those that are seen anyway: each place costs every node some memory.
    yield from {path for path in mapped if ".so" in os.path.basename(path) and not path.startswith(seen)}


def _packages() -> Iterator[str]:
    for folder in sys.path:
        yield from _without_private(Path(folder or ".").absolute())
        yield from _linked_in(folder or ".")
    for each in distributions():
        text = each.read_text("direct_url.json")
        if text is None:
            continue
        try:
            origin = msgspec.json.decode(text, type=_DirectUrl)
        except msgspec.DecodeError:
            continue
        if origin.dir_info is not None and origin.dir_info.editable:
            yield from _without_private(Path(unquote(urlsplit(origin.url).path)))


def _code(plan: RunPlan) -> Iterator[str]:
    """The folders of the files that the plan names: they may import each other, and read what lies beside them."""
    if any(own_code(plan.experiment)):  # it may read what it is given relative to where the command was typed
        yield from _without_private(Path.cwd())
    for path in map(Path, own_files(plan.experiment)):
        yield from _without_private(path.absolute().parent)
        yield str(path.absolute())
    yield from _listed(FOLDERS)


def _data() -> Path:
    return cache_folder().absolute()


def shown_too() -> Iterator[str]:
    """What TESTBED_VISIBLE names, as it is; raises UsageProblem for what cannot be shown."""
    for each in os.environ.get(VISIBLE, "").split(os.pathsep):
        if not each:
            continue
        if not os.path.exists(each):
            raise UsageProblem(f"{VISIBLE}: there is no {each}", "it is a list of folders and files, parted by colons")
        if os.path.realpath(each) == "/":
            raise UsageProblem(f"{VISIBLE}: learners cannot be shown everything", "name the folders that they need")
        yield each


def _listed(variable: str) -> Iterator[str]:
    for each in os.environ.get(variable, "").split(os.pathsep):
        if each:
            yield from _without_private(Path(each).absolute())


def _linked_in(folder: str) -> Iterator[str]:
    """What packages lead to that are links there, as some installers make them."""
    try:
        with os.scandir(folder) as entries:
            links = [each.path for each in entries if each.is_symlink()]
    except OSError:
        return
    for path in links:
        yield from _without_private(Path(path).resolve())


def _without_private(folder: Path) -> Iterator[str]:
    """The folder; of a home, or of /tmp, only the modules and packages in it."""
    if not _is_everything(folder):
        yield str(folder)
        return
    try:
        there = list(folder.iterdir())
    except OSError:
        return
    for each in there:
        if each.suffix in (".py", ".so") or os.path.isfile(each / "__init__.py"):
            yield str(each)


def _is_everything(folder: Path) -> bool:
    real = folder.resolve()
    return any(Path(each).resolve().is_relative_to(real) for each in (os.path.expanduser("~"), _TMP))


def _other_runs(run: RunDirectory, seen: Iterable[str]) -> Iterator[VisiblePath]:
    """The folder of results is empty to learners; where other things that they need lie in it, its runs are."""
    results = run.path.resolve().parent
    if str(results) in (_TMP, _SHARED_MEMORY):
        return  # they have one of their own there
    if not any(Path(each).resolve().is_relative_to(results) for each in seen):
        yield VisiblePath(str(results), PathKind.HIDDEN)
        return
    for each in (run.path, *results.iterdir()):
        if each == run.path or is_run(each):
            yield VisiblePath(str(each.resolve()), PathKind.HIDDEN)


def _sockets(places: Places) -> Iterator[VisiblePath]:
    """Of this run and of others: who reaches them, leads those."""
    there = places.sockets.parent
    if str(there.resolve()) == _TMP:
        return
    for each in there.glob(f"{PREFIX}*"):
        if each.is_dir() and not each.is_symlink():
            yield VisiblePath(str(each), PathKind.HIDDEN)
