"""`testbed draw`: a picture of a topology; the file's ending selects the format."""

from __future__ import annotations

from pathlib import Path

import click

from testbed.cli.output_file import write_atomically
from testbed.cli.topology_file import open_topology, topology_argument
from testbed.errors import UsageProblem
from testbed.topologies.drawing import Colour, Labels, PictureFormat, Style, draw


@click.command()
@topology_argument
@click.option(
    "-o", "--output", "output", required=True, metavar="OUT", help="Where to: .svg, .png, .html, .dot or .mmd."
)
@click.option(
    "--labels",
    type=click.Choice([one.value for one in Labels]),
    default=Labels.AUTO.value,
    show_default=True,
    help="How much to write beside the parts.",
)
@click.option(
    "--colour",
    "--color",
    "colour",
    type=click.Choice([one.value for one in Colour]),
    default=Colour.LATENCY.value,
    show_default=True,
    help="What the colour of a link stands for.",
)
def command(file: str, output: str, labels: str, colour: str) -> None:
    """Draw a topology: regions, nodes, links and what limits them.

    \b
    Example:
      testbed draw topologies/wan256.xml -o wan256.svg
      testbed draw my-network.yaml -o net.html --colour loss
    """
    kind = _kind(output)
    opened = open_topology(file)
    write_atomically(output, draw(opened.topology, kind, Style(Labels(labels), Colour(colour))))
    click.echo(f"wrote {output}", err=True)


def _kind(output: str) -> PictureFormat:
    """The format that the file's ending stands for."""
    ending = Path(output).suffix.lower().removeprefix(".")
    if ending not in list(PictureFormat):
        known = ", ".join(f".{kind}" for kind in PictureFormat)
        what = f"its ending `.{ending}` is not one of ours" if ending else "it has no ending"
        raise UsageProblem(f"cannot tell what kind of picture {output} should be: {what}", f"known endings: {known}")
    return PictureFormat(ending)
