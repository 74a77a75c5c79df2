"""`testbed topologies`: lists the bundled topologies."""

from __future__ import annotations

import click

from testbed.cli.output import Format, format_option, print_csv, print_json, print_table
from testbed.topologies.bundled import BUNDLED, Bundled

_COLUMNS = ("name", "form", "nodes", "bridges", "links", "description")


@click.command()
@format_option
def command(output_format: Format) -> None:
    """List the bundled topologies; `links` counts each direction.

    Any command takes them as topologies/NAME.

    \b
    Example:
      testbed topologies
      testbed topologies --format json
    """
    rows = [_row(bundled) for bundled in BUNDLED]
    if output_format is Format.JSON:
        print_json([dict(zip(_COLUMNS, row, strict=True)) for row in rows])
    elif output_format is Format.CSV:
        print_csv(_COLUMNS, rows)
    else:
        print_table(_COLUMNS, rows, least=("form", "bridges", "links"), wrapped=("description",))


def _row(bundled: Bundled) -> tuple[str, str, int, int, int, str]:
    from testbed.network.graph import count_directed_links
    from testbed.topologies.load import load

    topology = load(bundled.path).require()
    return (
        bundled.name,
        bundled.form,
        len(topology.nodes),
        len(topology.bridges),
        count_directed_links(topology),
        bundled.description,
    )
