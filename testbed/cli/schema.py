"""`testbed schema`: the YAML languages for editors."""

from __future__ import annotations

import click

from testbed.cli.output import print_json


@click.command("schema")
@click.argument("what", type=click.Choice(["topology", "experiment"]), default="topology")
def command(what: str) -> None:
    """Print the JSON Schema of topologies or of experiments; editors complete and check such files with it.

    \b
    Example:
      testbed schema > topology.schema.json
      testbed schema experiment > experiment.schema.json
      # then, as the first line of a topology:
      # yaml-language-server: $schema=topology.schema.json
    """
    if what == "experiment":
        from testbed.experiment.language import json_schema as of_experiments

        print_json(of_experiments())
    else:
        from testbed.topologies.language import json_schema as of_topologies

        print_json(of_topologies())
