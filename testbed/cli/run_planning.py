"""The plan of a run that is about to start here.

Takes what was resolved and asked for, gives a `RunPlan`; loads the data and the model, and may fetch and measure.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.cli.experiment_options import Resolved
from testbed.cli.findings import print_findings
from testbed.cli.run_choice import DOCKER, SIM, Chosen
from testbed.cli.run_code import refuse, refuse_wrong_code
from testbed.cli.run_fitting import fitted
from testbed.cli.run_name import checked_run_name, made_run_name
from testbed.cli.run_place import way_to
from testbed.errors import Severity, UsageProblem
from testbed.experiment.origin import Origin
from testbed.topologies.source import Source

if TYPE_CHECKING:
    from testbed.plan.model import RunPlan


MEASURED_IN_VIRTUAL_TIME = "virtual time cannot be measured"


def free_run_id(results: Path, given: str | None, topology: str, algorithm: str, *, overwrite: bool = False) -> str:
    """A name that a new run can have, as far as can be known before its directory is made."""
    if given is None:
        name = made_run_name(topology, algorithm, f"{datetime.now(UTC):%Y%m%d-%H%M%S}")
        names = (name if number == 1 else f"{name}-{number}" for number in count(1))
        return next(each for each in names if not (results / each).exists())
    way_to(results / checked_run_name(given), overwrite=overwrite)
    return given


def planned(
    resolved: Resolved,
    chosen: Chosen,
    engine: str | None,
    time_scale: float | None,
    run_id: str,
    *,
    beside: Path,
    say: Callable[[str], None],
    quiet: bool = False,
    fetch: bool = True,
) -> RunPlan:
    """Complete, fit for comparison with the runs beside it; what is said on the way, warnings too, unless `quiet`."""
    from testbed.plan.cautions import cautions
    from testbed.plan.estimate import estimate
    from testbed.plan.late_events import events_too_late
    from testbed.plan.make import make_plan

    experiment = resolved.experiment
    is_measured = experiment.compute.mode == "measured"
    if is_measured and chosen.name == SIM:
        raise UsageProblem(MEASURED_IN_VIRTUAL_TIME, "take `compute: {mode: paced}` with this runtime")
    plan = partial(
        make_plan,
        experiment,
        resolved.topology,
        run_id=run_id,
        engine=engine,
        source=resolved.origin,
        inputs=resolved.inputs,
    )
    first = plan(runtime=chosen.name)
    learners = len(first.learners)  # and all that does not fit together is known before anything is said or fetched
    if fetch:
        refuse_wrong_code(experiment, chosen.name, resolved.origin, say)
    chosen = chosen.settle(say, ("compute.mode=measured",) if is_measured else ())
    runtime = chosen.name
    plan = partial(plan, runtime=runtime)
    if not quiet:
        for name, findings in resolved.findings:
            print_findings(name, [each for each in findings if each.severity is Severity.WARNING])
        print_findings(experiment.topology, cautions(experiment, resolved.topology))
    say(f"preparing {experiment.data.name} and {experiment.model.name} for {learners} learners")

    from testbed.node.named_code import WrongCode
    from testbed.runtimes.sim.describe import describe, versions

    described = describe(experiment, learners, fetch=fetch, tell=say)
    if described.problem is not None and not fetch:
        say(f"warning: the run would fail at once: {described.problem}")
    elif described.problem is not None and runtime != DOCKER:
        refuse(WrongCode(("model", "name"), described.problem), runtime, resolved.origin, say)
    plan = partial(plan, parameters=described.parameters, samples=described.samples, versions=versions())
    if described.nominal_ms_per_step is not None:
        plan = partial(plan, nominal_ms_per_step=described.nominal_ms_per_step)
    made = plan() if runtime == SIM else fitted(plan, first, described.parameters, time_scale, beside, say)
    if described.samples_estimated:
        made = made.model_copy(update={"samples_estimated": True})
    if not quiet:
        late = events_too_late(made, resolved.topology, lambda: estimate(made))
        print_findings(experiment.topology, late)
    return made.model_copy(update={"runtime_choice": chosen.for_plan()})


def ready_again(plan: RunPlan, file: Path, say: Callable[[str], None]) -> None:
    """What the plan in that file needs is there, before there is a run directory: its code, and its data."""
    experiment = plan.experiment
    refuse_wrong_code(experiment, plan.runtime, Origin(Source(str(file), "")), say)
    say(f"preparing {experiment.data.name} and {experiment.model.name} for {len(plan.learners)} learners")

    from testbed.node.data.experiment_data import fetch_data

    fetch_data(experiment, tell=say)
