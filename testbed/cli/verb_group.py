"""A command with subcommands, with whole sentences in its help, and a suggestion for a mistyped name."""

from __future__ import annotations

import click

from testbed.errors import UsageProblem, did_you_mean

WORDS = "testbed.words"
"""Key in a context's `meta`: the words of the command line, for messages that say how to repeat the command."""
_LONGER_THAN_ANY = 1000


class VerbGroup(click.Group):
    """Shows the complete first sentence of each command; raises UsageProblem for an unknown one."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(self.sentences(ctx))

    def sentences(self, ctx: click.Context) -> list[tuple[str, str]]:
        """The name of each command and its first sentence."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        return [(name, each.get_short_help_str(limit=_LONGER_THAN_ANY)) for name, each in commands if each is not None]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            raise UsageProblem(f"there is no command {name!r}", did_you_mean(name, self.list_commands(ctx)))
        return super().resolve_command(ctx, args)
