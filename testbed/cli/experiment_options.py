"""FILE and the options of every command that runs an experiment. Both give one validated `Experiment`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from testbed.catalogue.algorithms import ALGORITHMS
from testbed.catalogue.data_sets import DATA_SETS
from testbed.catalogue.models import MODELS
from testbed.catalogue.sharings import SHARINGS
from testbed.cli.topology_file import load_named
from testbed.errors import UsageProblem
from testbed.experiment.defaults import DEFAULT_ROUNDS

if TYPE_CHECKING:
    from testbed.experiment.origin import Setting
    from testbed.experiment.read import LoadedExperiment
    from testbed.runtimes.planning import Resolved
    from testbed.topologies.load import Loaded

_Function = TypeVar("_Function", bound=Callable[..., Any])

_SHORT = (
    ("--algorithm", "algorithm.name", "NAME", f"{', '.join(ALGORITHMS)}, module:Class or file.py:Class."),
    ("--overlay", "overlay.kind", "KIND", "ring, regular, full, small-world, star, file, network, cyclon, or code."),
    ("--degree", "overlay.degree", "N", "Neighbours of a node.  [default: 5, or the nearest possible]"),
    ("--sharing", "sharing.name", "NAME", f"{', '.join(SHARINGS)}, or code."),
    ("--data", "data.name", "NAME", f"{', '.join(DATA_SETS)}, or code."),
    ("--model", "model.name", "NAME", f"{', '.join(MODELS)}, or code.  [default: by the data]"),
    ("--rounds", "stop.rounds", "N", f"Stop after this many rounds.  [default: {DEFAULT_ROUNDS}]"),
    ("--time", "stop.time", "TIME", "Stop after this much emulated time, such as 120s."),
    ("--lr", "training.lr", "NUMBER", "Learning rate."),
    ("--batch", "training.batch", "N", "Samples of a minibatch."),
    ("--steps", "training.steps", "N", "Minibatches a round."),
    ("--seed", "seed", "N", "Seed of all random draws."),
)


def experiment_options(function: _Function) -> _Function:
    """Adds FILE (None if left out) and the options, passed on as `file` and `settings` for `resolve`."""

    @wraps(function)
    def collect(*arguments: Any, set_: tuple[str, ...], dynamic: bool | None, **options: Any) -> Any:
        from testbed.experiment.origin import Setting
        from testbed.experiment.read import setting

        settings = []
        for flag, path, *_ in _SHORT:
            value = options.pop(_parameter(flag))
            if value is not None:
                settings.append(Setting(f"{flag} {value}", tuple(path.split(".")), value))
        if dynamic is not None:
            flag, value = ("--dynamic", "true") if dynamic else ("--static", "false")
            settings.append(Setting(flag, ("overlay", "dynamic"), value))
        settings.extend(setting(text) for text in set_)
        return function(*arguments, settings=tuple(settings), **options)

    decorated: Callable[..., Any] = collect
    decorated = click.option(
        "--set",
        "set_",
        multiple=True,
        metavar="KEY=VALUE",
        help="Any key of the experiment, such as evaluation.every=5.",
    )(decorated)
    decorated = click.option("--dynamic/--static", default=None, help="Draw a new overlay every round, or keep one.")(
        decorated
    )
    for flag, _path, metavar, told in reversed(_SHORT):
        decorated = click.option(flag, _parameter(flag), metavar=metavar, help=told)(decorated)
    return click.argument("file", type=str, required=False)(decorated)  # type: ignore[return-value]


def _parameter(flag: str) -> str:
    """A parameter name that differs from those of the command's own options."""
    return "setting_" + flag.removeprefix("--")


def resolve(file: str | None, settings: Sequence[Setting], *, quiet: bool = False) -> Resolved:
    """The experiment of a file, or the default one on a topology. Raises InvalidInput or UsageProblem."""
    from testbed.experiment.attached import own_files
    from testbed.experiment.read import experiment_on, load_experiment
    from testbed.runtimes.planning import Resolved

    if file is None:
        raise UsageProblem("which topology or experiment?", "give a file, such as topologies/wan16.xml")
    own = _is_experiment(file)
    read = load_experiment(file, settings) if own else experiment_on(file, settings)
    experiment = read.require()
    topology = _topology(experiment.topology, read, own=own, quiet=quiet)
    inputs = {experiment.topology: _hash(Path(topology.file).read_bytes())}
    inputs |= {name: _hash(text.encode()) for name, text in read.origin.attached.items()}
    inputs |= {name: _hash(Path(name).read_bytes()) for name in own_files(experiment)}
    if own:
        inputs[file] = _hash(read.origin.source.data)
    findings = ((file, read.findings), (topology.file, topology.findings)) if own else ((file, topology.findings),)
    return Resolved(experiment, topology.require(), read.origin, inputs, findings)


def _is_experiment(file: str) -> bool:
    from testbed.experiment.read import is_experiment

    try:
        return Path(file).is_file() and is_experiment(file)
    except (OSError, ValueError):
        return False  # reading it reports why


def _topology(name: str, read: LoadedExperiment, *, own: bool, quiet: bool) -> Loaded:
    """The topology: beside the experiment, in the working directory, or bundled. Raises InvalidInput or
    UsageProblem."""
    from testbed.topologies.load import load

    if not own:
        return load_named(name, quiet=quiet)
    path = read.origin.locate(name)
    try:
        return load(path) if path.is_file() else load_named(name, quiet=quiet)
    except UsageProblem as problem:
        report = read.origin.report()
        report.complain("no-file", problem.message, problem.hint, "topology")
        report.raise_if_wrong()
        raise


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
