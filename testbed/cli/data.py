"""`testbed data`: lists data sets, fetches them, and shows how learners would divide one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from testbed.cli.output import Format, format_option, print_csv, print_json, print_table
from testbed.cli.output_file import write_atomically
from testbed.cli.verb_group import VerbGroup
from testbed.code import is_code
from testbed.errors import UsageProblem, did_you_mean

if TYPE_CHECKING:
    from testbed.node.data.catalogue import CatalogueEntry

PARTITIONS = ("iid", "shards", "dirichlet", "user")
PICTURES = (".svg", ".png")


def _say(words: str) -> None:
    click.echo(words, err=True)


def _known(name: str) -> CatalogueEntry:
    from testbed.node.data.catalogue import ENTRIES

    if name not in ENTRIES:
        hint = did_you_mean(name, ENTRIES) or "`testbed data list` shows all"
        raise UsageProblem(f"there is no data set called {name!r}", hint)
    return ENTRIES[name]


_SETTINGS = click.option("--set", "settings", multiple=True, metavar="OPTION=VALUE", help="An option of the data set.")


@click.group(cls=VerbGroup)
def command() -> None:
    """Data sets: list them, fetch them, see how they are divided.

    They are kept in $TESTBED_DATA, else in the user's cache directory.

    \b
    Example:
      testbed data list
      testbed data fetch fashion-mnist
      testbed data partition fashion-mnist --learners 16 --kind shards --draw who-has-what.svg
    """


@command.command("list")
@format_option
def list_(output_format: Format) -> None:
    """List the data sets that are known by name.

    \b
    Example:
      testbed data list
    """
    from testbed.cli.data_info import LIST_COLUMNS, list_row
    from testbed.node.data.catalogue import ENTRIES

    rows = [list_row(entry) for entry in ENTRIES.values()]
    if output_format is Format.JSON:
        print_json([dict(zip(LIST_COLUMNS, row, strict=True)) for row in rows])
    elif output_format is Format.CSV:
        print_csv(LIST_COLUMNS, rows)
    else:
        print_table(
            [column.replace("_mb", " MB") for column in LIST_COLUMNS],
            [[_in_words(cell) if isinstance(cell, bool) else cell for cell in row] for row in rows],
            least=("shape", "kind", "test", "train", "download MB"),
            wrapped=("summary",),
        )


@command.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def fetch(names: tuple[str, ...]) -> None:
    """Fetch data sets into the cache; what is there already is checked, byte for byte.

    Prints the folder of each. Nothing is installed, and root is not needed.

    \b
    Example:
      testbed data fetch fashion-mnist cifar10
    """
    from testbed.node.data.fetch import ensure

    for entry in [_known(name) for name in names]:
        if not entry.needs_download:
            _say(f"{entry.name} needs no download")
            continue
        click.echo(str(ensure(entry.name, tell=_say, check=True)))


@command.command()
@click.argument("name")
@_SETTINGS
@format_option
def info(name: str, settings: tuple[str, ...], output_format: Format) -> None:
    """Tell all about one data set: sizes, shapes, samples per class, terms, where it is.

    NAME is a data set of `testbed data list`, or module:function or file.py:function of your own, which is called.

    \b
    Example:
      testbed data info digits
      testbed data info mydata.py:stripes --set samples=100
    """
    from testbed.cli.data_info import describe, describe_own

    if is_code(name):
        described = describe_own(name, _settings(settings))
    elif settings:
        raise UsageProblem("--set is for data of your own here", "`testbed data partition` takes the options of all")
    else:
        described = describe(_known(name))
    if output_format is Format.JSON:
        print_json(described)
        return
    flat = []
    for key, value in described.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            flat += [(f"{key}: {each['target']}", f"{each['train']} train, {each['test']} test") for each in value]
        elif value is not None:
            flat.append((key.replace("_", " "), _in_words(value)))
    (print_csv if output_format is Format.CSV else print_table)(("property", "value"), flat)


@command.command()
@click.argument("name")
@click.option("--learners", type=click.IntRange(min=1), required=True, help="How many learners share the data.")
@click.option("--kind", type=click.Choice(PARTITIONS), help="How it is divided.  [default: shards; user for movielens]")
@click.option("--per-node", type=int, help="shards: how many each learner gets (2).")
@click.option("--variant", type=click.Choice(["grid", "decpy"]), help="shards: which of the two ways (grid).")
@click.option("--alpha", type=float, help="dirichlet: the smaller, the more uneven (0.1).")
@click.option("--min", "least", type=int, help="dirichlet: the fewest samples of a learner (as many as classes).")
@click.option("--order", type=click.Choice(["shuffle", "contiguous"]), help="user: in which order users are dealt.")
@click.option("--seed", type=int, default=1, show_default=True, help="The experiment's seed.")
@_SETTINGS
@click.option("--draw", "picture", metavar="FILE", help="Draw who has what, too: .svg or .png.")
@format_option
def partition(
    name: str,
    learners: int,
    kind: str | None,
    per_node: int | None,
    variant: str | None,
    alpha: float | None,
    least: int | None,
    order: str | None,
    seed: int,
    settings: tuple[str, ...],
    picture: str | None,
    output_format: Format,
) -> None:
    """Show who gets what when learners share a data set.

    NAME is a data set of `testbed data list`, or module:function or file.py:function of your own.

    \b
    Example:
      testbed data partition cifar10 --learners 256 --kind dirichlet --alpha 0.1 --draw parts.png
    """
    from testbed.cli.data_partition import Shares, divide, draw_shares, print_shares
    from testbed.experiment.language import default_partition

    if picture and Path(picture).suffix.lower() not in PICTURES:
        raise UsageProblem(f"cannot tell what kind of picture {picture} should be", "known endings: .svg, .png")
    if not is_code(name):
        _known(name)
    given = {"per_node": per_node, "variant": variant, "alpha": alpha, "min": least, "order": order}
    options = {key: value for key, value in given.items() if value is not None}
    kind = kind or default_partition(name)
    shares: Shares = divide(name, _settings(settings), learners, kind, options, seed, _say)
    print_shares(shares, output_format)
    _say(shares.words)
    if picture:
        write_atomically(picture, draw_shares(shares, Path(picture).suffix.lower()))
        _say(f"wrote {picture}")


def _in_words(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _settings(given: tuple[str, ...]) -> dict[str, object]:
    """Parses `key=value` pairs; a value that looks like a number or a boolean is one, any other is a text."""
    found: dict[str, object] = {}
    for each in given:
        key, equals, text = each.partition("=")
        if not equals or not key:
            raise UsageProblem(f"cannot read --set {each}", "write --set OPTION=VALUE")
        try:
            found[key] = json.loads(text)
        except ValueError:
            found[key] = text
    return found
