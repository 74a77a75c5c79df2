"""`testbed calibrate`: how fast this machine trains, and the step time that it can sustain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from testbed.catalogue.data_sets import DATA_SETS, DEFAULT_DATA
from testbed.catalogue.models import DEFAULT_MODEL, MODELS
from testbed.cli.output import Cell, Format, format_option, print_csv, print_json, print_table
from testbed.code import CodeProblem
from testbed.cores import usable_cores
from testbed.node.models.problems import ModelProblem

if TYPE_CHECKING:
    from testbed.node.data.dataset import DataSet
    from testbed.node.training import Trainer
    from testbed.node.training_speed import Speed

_LEARNERS = (16, 64, 256, 1024)
_STEPS_PER_CALL = 5
_AT_MOST_S = 3.0
"""Longest time of each of the two measurements."""
_SAMPLES = 512
_COLUMNS = ("processes", "median_ms_per_step", "p95_ms_per_step", "steps_per_s")
_SUSTAINED_COLUMNS = ("learners", "sustained_ms_per_step")


@click.command()
@click.option(
    "--model", default=DEFAULT_MODEL, show_default=True, help=f"{', '.join(MODELS)}; module:Class or file.py:Class."
)
@click.option(
    "--data",
    type=click.Choice(list(DATA_SETS)),
    default=DEFAULT_DATA,
    show_default=True,
    help="Random inputs of this data set's shape are used; nothing is fetched.",
)
@click.option("--batch", type=click.IntRange(1, _SAMPLES), default=8, show_default=True, help="Samples in a step.")
@click.option("--steps", type=click.IntRange(1), default=400, show_default=True, help="Steps of each process, at most.")
@format_option
def command(model: str, data: str, batch: int, steps: int, output_format: Format) -> None:
    """Measure this machine's time for a local step: one process alone, then one on every core.

    SUSTAINED is the `ms_per_step` that so many learners could keep up with here, with a quarter to spare. NOMINAL is
    what `ms_per_step: auto` takes in virtual time: it depends on the model alone, not on the machine.

    \b
    Example:
      testbed calibrate
      testbed calibrate --model mlp --data digits --batch 16 --format json
      testbed calibrate --model mymodel.py:Net --data digits
    """
    # Torch takes a second to load: only commands that train may.
    from testbed.node.training import Settings, Trainer, TrainingFailed
    from testbed.node.training_cost import nominal_ms_per_step
    from testbed.node.training_speed import sustained_ms_per_step

    try:
        trainer = Trainer(model, {}, random_data(data), Settings(lr=0.001, batch=batch), seed=1)
        _try_once(trainer)
        nominal_ms = nominal_ms_per_step(trainer, batch)
        speeds = [_measure(trainer, processes, steps) for processes in sorted({1, usable_cores()})]
    except (CodeProblem, TrainingFailed) as problem:
        raise ModelProblem(f"cannot measure {model}: {problem}") from problem
    measured: list[tuple[Cell, ...]] = [
        (speed.processes, round(speed.median_ms, 3), round(speed.p95_ms, 3), round(speed.steps_per_s, 1))
        for speed in speeds
    ]
    best = max(speed.steps_per_s for speed in speeds)
    sustained: list[tuple[Cell, ...]] = [(count, sustained_ms_per_step(best, count)) for count in _LEARNERS]
    if output_format is Format.JSON:
        print_json(
            {
                "model": model,
                "data": data,
                "batch": batch,
                "parameters": trainer.parameters,
                "nominal_ms_per_step": nominal_ms,
                "measured": [dict(zip(_COLUMNS, row, strict=True)) for row in measured],
                "sustained": [dict(zip(_SUSTAINED_COLUMNS, row, strict=True)) for row in sustained],
            }
        )
    elif output_format is Format.CSV:
        columns = (*_COLUMNS, *_SUSTAINED_COLUMNS)
        print_csv(columns, [*((*row, None, None) for row in measured), *((None,) * 4 + row for row in sustained)])
    else:
        print_table(_COLUMNS, measured)
        print_table(_SUSTAINED_COLUMNS, sustained)
        click.echo(f"{model}: {trainer.parameters} parameters; nominal {nominal_ms:g} ms per step", err=True)
        click.echo(
            "compute.ms_per_step: auto is the nominal figure in virtual time, and what this machine can keep up with "
            f"for real nodes; --set compute.ms_per_step={measured[0][1]} makes learners as fast as this machine",
            err=True,
        )


def _try_once(trainer: Trainer) -> None:
    """Takes one step, so that problems of a model are reported here rather than by a measuring process."""
    import numpy as np

    initial = trainer.initial()
    trainer.train(
        initial,
        learner=0,
        indices=np.arange(_SAMPLES),
        first_step=0,
        steps=1,
        velocity=None,
        out=np.empty_like(initial),
    )


def _measure(trainer: Trainer, processes: int, steps: int) -> Speed:
    import numpy as np

    from testbed.node.training_speed import bare_loops

    per_call = min(_STEPS_PER_CALL, steps)
    parts = [np.arange(_SAMPLES)] * processes
    return bare_loops(
        trainer, parts, processes=processes, rounds=steps // per_call, steps=per_call, at_most_s=_AT_MOST_S
    )


def random_data(name: str) -> DataSet:
    """Random samples with the shapes of the data set of that name."""
    import numpy as np

    from testbed.node.data.catalogue import ENTRIES
    from testbed.node.data.dataset import DataSet, Kind, Samples

    entry = ENTRIES[name]
    draw = np.random.default_rng(1)
    if entry.kind is Kind.RATINGS:
        pairs = np.stack([draw.integers(0, most, _SAMPLES) for most in (entry.users, entry.items)], axis=1)
        samples = Samples(pairs.astype(np.int32), draw.integers(1, 6, _SAMPLES).astype(np.float32))
    else:
        inputs = draw.random((_SAMPLES, *entry.input_shape), np.float32)
        samples = Samples(inputs, draw.integers(0, entry.classes, _SAMPLES))
    return DataSet(
        name=entry.name,
        kind=entry.kind,
        classes=entry.classes,
        input_shape=entry.input_shape,
        users=entry.users,
        items=entry.items,
        train=samples,
        test=samples,
    )
