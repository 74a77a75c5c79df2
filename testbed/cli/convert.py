"""`testbed convert`: XML ⇄ YAML without loss."""

from __future__ import annotations

from pathlib import Path

import click

from testbed.cli.findings import print_findings
from testbed.cli.output_file import write_atomically
from testbed.cli.topology_file import open_topology, topology_argument
from testbed.errors import UsageProblem


@click.command("convert")
@topology_argument
@click.option(
    "-o",
    "--output",
    "output",
    required=True,
    type=click.Path(path_type=Path),
    help="Where to: .xml or .yaml. A file that is there is replaced.",
)
def command(file: str, output: Path) -> None:
    """Rewrite the topology FILE in the other form; both load as the same model. Comments are not kept.

    \b
    Example:
      testbed convert topologies/wan16.xml -o wan16.yaml
    """
    from testbed.topologies.source import form_of
    from testbed.topologies.write import write_text

    form = form_of(output)
    if form is None:
        raise UsageProblem(f"{output}: neither XML nor YAML by its name", "name it .xml, .yaml or .yml")
    opened = open_topology(file)
    if output.exists() and output.samefile(opened.shown):
        raise UsageProblem(f"{output} is the file itself; its comments and layout would be lost", "give another name")
    print_findings(opened.shown, opened.findings)
    write_atomically(output, write_text(opened.topology, form, opened.shown))
    click.echo(f"wrote {output}", err=True)
