"""`testbed generate`: a network from a few numbers, from measurements, or from a published graph."""

from __future__ import annotations

import click

from testbed.cli.generate_graphs import graph_command, topohub_command
from testbed.cli.generate_regions import regions_command
from testbed.cli.generate_shapes import SHAPES
from testbed.cli.verb_group import VerbGroup


@click.group(cls=VerbGroup)
def command() -> None:
    """Generate a topology of one of the kinds below.

    Every network consists of sites (bridges) with links between them; each site has nodes, each behind an access link
    of its own. The same options give the same file, to the byte.

    \b
    Example:
      testbed generate ring --nodes 16 -o ring16.yaml
      testbed generate regions --nodes 64 --stragglers 0.1 --kollaps -o wan.xml
    """


for _kind in (*SHAPES, regions_command, graph_command, topohub_command):
    command.add_command(_kind)
