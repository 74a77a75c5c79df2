"""`testbed render`: writes the files from which another tool starts a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from testbed import __version__
from testbed.cli.experiment_options import experiment_options, resolve
from testbed.cli.findings import print_findings
from testbed.cli.render_compose import check_options, words_anywhere
from testbed.cli.rendered_folder import write_manifest
from testbed.errors import Severity, UsageProblem

if TYPE_CHECKING:
    from testbed.experiment.origin import Setting
    from testbed.plan.model import RunPlan, RuntimeFacts
    from testbed.runtimes.planning import Resolved

COMPOSE, KOLLAPS = "compose", "kollaps"
TARGETS = (COMPOSE, KOLLAPS)
_SWARM, _KUBERNETES = "swarm", "kubernetes"


@click.command("render")
@experiment_options
@click.option("--target", required=True, type=click.Choice(TARGETS), help="The tool that the files are for.")
@click.option(
    "--orchestrator",
    default=_SWARM,
    show_default=True,
    type=click.Choice((_SWARM, _KUBERNETES)),
    help="What Kollaps runs on.",
)
@click.option(
    "-o",
    "--output",
    "output",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder for the files.  [default: ./<run-id>-<target>]",
)
@click.option("--run-id", help="The run's name.  [default: from topology and algorithm]")
@click.option("--plan", "plan_file", type=click.Path(path_type=Path, dir_okay=False), help="Render this plan.json.")
@click.option(
    "--path",
    "cluster_path",
    help="Where the folder will lie on every machine of the cluster, absolute.  [default: where it is here]",
)
@click.option(
    "--machines",
    default=1,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="The number of machines in the cluster.",
)
@click.option("--force", is_flag=True, help="Overwrite files that were changed after `render`.")
@click.option("--quiet", "-q", is_flag=True, help="Print errors only.")
@click.pass_context
def command(
    context: click.Context,
    target: str,
    orchestrator: str,
    output: Path | None,
    run_id: str | None,
    plan_file: Path | None,
    cluster_path: str | None,
    machines: int,
    *,
    force: bool,
    quiet: bool,
    file: str | None,
    settings: Sequence[Setting],
) -> None:
    """Write the manifest of a run, to start it by hand: of a topology, or of an experiment.

    \b
    Examples:
      testbed render topologies/wan16.xml --target compose --data digits
      testbed render topologies/wan16.xml --target kollaps
      testbed render experiment.yaml --target kollaps --orchestrator kubernetes -o wan16

    The paths of the files are printed to stdout. Parts of a topology that Kollaps would emulate wrongly are rewritten
    with a warning, or refused.
    """
    from testbed.manifests.compose.render import render as render_compose
    from testbed.manifests.kollaps.render import Orchestrator, render
    from testbed.plan.files import read_plan
    from testbed.runtimes.run_place import checked_run_name

    if target == COMPOSE:
        check_options(context)
    runtime, engine, facts = _runs_as(target)
    words = None
    if plan_file is not None:
        if file is not None or settings:
            raise UsageProblem("a plan is complete: it takes no topology and no settings", "leave out one of the two")
        plan = read_plan(plan_file)
        plan = plan.model_copy(
            update={
                "run_id": checked_run_name(run_id or plan.run_id),
                "runtime": runtime,
                "engine": engine,
                "runtime_facts": facts,
            }
        )
        topology, name = plan.load_topology(), str(plan_file)
    else:
        resolved = resolve(file, settings, quiet=quiet)
        plan = _plan(resolved, target, run_id)
        topology, name = resolved.topology, resolved.findings[-1][0]
        words = words_anywhere(resolved, file or "", settings)
        if not quiet:
            for read, findings in resolved.findings:
                print_findings(read, [each for each in findings if each.severity is Severity.WARNING])
    folder = output or Path(f"{plan.run_id}-{target}")
    if target == COMPOSE:
        manifest = render_compose(plan, words=words, topology=topology, file=name)
    else:
        manifest = render(
            plan,
            Orchestrator(orchestrator),
            folder=_on_every_machine(cluster_path, folder),
            topology=topology,
            file=name,
            machines=machines,
        )
    if not quiet:
        print_findings(name, manifest.said)
    for path in write_manifest(folder, manifest, force=force):
        click.echo(path)


def _plan(resolved: Resolved, target: str, run_id: str | None) -> RunPlan:
    """The plan without facts that need the data or the model: rendering fetches and loads nothing."""
    from testbed.plan.make import make_plan
    from testbed.runtimes.run_place import checked_run_name, made_run_name

    runtime, engine, facts = _runs_as(target)
    experiment = resolved.experiment
    return make_plan(
        experiment,
        resolved.topology,
        run_id=checked_run_name(run_id or made_run_name(resolved.topology.name, experiment.algorithm.name)),
        runtime=runtime,
        engine=engine,
        runtime_facts=facts,
        source=resolved.origin,
        inputs=resolved.inputs,
        versions={"testbed": __version__},
    )


def _runs_as(target: str) -> tuple[str, str, RuntimeFacts]:
    """The plan's runtime and engine, and the facts of the runtime."""
    from testbed.plan.model import RuntimeFacts
    from testbed.runtimes.registry import CONTAINERS

    if target == COMPOSE:
        return CONTAINERS.name, CONTAINERS.facts.engines[0], CONTAINERS.recorded()
    return KOLLAPS, KOLLAPS, RuntimeFacts(is_virtual=False, is_judged=False)


def _on_every_machine(given: str | None, folder: Path) -> str:
    if given is None:
        return str(folder.absolute())
    if not given.startswith("/"):
        raise UsageProblem(f"--path: `{given}` is not absolute", "give a path that begins with /")
    return given
