"""`testbed schema`: the YAML language for editors."""

from __future__ import annotations

import click

from testbed.cli.output import print_json
from testbed.topologies.language import json_schema


@click.command("schema")
def command() -> None:
    """Print the JSON Schema of the YAML language; editors complete and check topologies with it.

    \b
    Example:
      testbed schema > topology.schema.json
      # then, as the first line of a topology:
      # yaml-language-server: $schema=topology.schema.json
    """
    print_json(json_schema())
