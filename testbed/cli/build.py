"""`testbed build`: the image that learners run in."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import click

from testbed.cli.output import Cell, Format, format_option, print_csv, print_json, print_table
from testbed.errors import UsageProblem

_TORCH = re.compile(r"cpu|default|[0-9][0-9A-Za-z.+]*")
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("build")
@click.option("--tag", default="testbed:latest", show_default=True, metavar="NAME", help="What to call the image.")
@click.option(
    "--base", metavar="IMAGE", help="What to build it on.  [default: python:3.11-slim, or scripts/base-image's]"
)
@click.option(
    "--algorithm",
    "algorithms",
    multiple=True,
    type=_FILE,
    metavar="FILE",
    help="A file of your own to add to the image. Repeatable.",
)
@click.option(
    "--requirements", type=_FILE, metavar="FILE", help="A pip requirements file with packages that your files need."
)
@click.option(
    "--wheels",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Take all packages from this folder, and nothing from the network.",
)
@click.option(
    "--torch",
    default="cpu",
    show_default=True,
    metavar="cpu|default|VERSION",
    help="Which build of torch: without CUDA, what the package index has, or a version such as 2.13.0+cu130.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print errors only.")
@format_option
def command(
    tag: str,
    base: str | None,
    algorithms: tuple[Path, ...],
    requirements: Path | None,
    wheels: Path | None,
    torch: str,
    *,
    quiet: bool,
    output_format: Format,
) -> None:
    """Build the image that every learner's container runs.

    \b
    Examples:
      testbed build
      testbed build --algorithm gossip.py
      testbed build --tag mine --algorithm gossip.py --requirements packages.txt
      testbed build --wheels wheels/

    In a checkout its Dockerfile is used, and files in algorithms/ are added. Indexes, proxies and certificates are
    those of this machine's pip. Ctrl-C ends a build; the next one reuses the steps that were done.
    """
    from testbed.cli.build_view import build_view
    from testbed.image.build import Request, build_image
    from testbed.image.facts import is_name

    if not is_name(tag):
        raise UsageProblem(
            f"--tag: `{tag}` cannot be an image's name", "take small letters, digits and dashes: my-image:1"
        )
    if not _TORCH.fullmatch(torch):
        raise UsageProblem(f"--torch: `{torch}` is no version", "write cpu, default, or a version such as 2.13.0+cu130")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends in good order, too
    with build_view(quiet=quiet) as view:
        built = build_image(Request(tag, base, algorithms, requirements, wheels, torch), view.tell, view.say)
    facts: dict[str, Cell | list[str]] = {
        "image": built.tag,
        "id": built.id,
        "size_mb": round(built.size_bytes / 1e6),
        "base": built.base,
        "python": built.versions.get("python", ""),
        "torch": built.versions.get("torch", ""),
        "code": list(built.code),
    }
    if output_format is Format.JSON:
        print_json(facts)
        return
    rows: list[tuple[str, Cell]] = [
        (key.replace("_", " "), ", ".join(value) if isinstance(value, list) else value) for key, value in facts.items()
    ]
    (print_csv if output_format is Format.CSV else print_table)(("property", "value"), rows)
