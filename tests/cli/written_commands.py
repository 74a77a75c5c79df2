"""Commands as people are shown them: whether the verb is there, and has the options that are written."""

from __future__ import annotations

import re
import shlex

from click.testing import CliRunner

from testbed.cli.main import main


def assert_command_exists(line: str) -> None:
    """Of a line that begins with `testbed`, by the command's own help; it is not run."""
    words = shlex.split(line, comments=True)[1:]
    own = words[: words.index("--")] if "--" in words else words
    options = {word for word in own if word.startswith("-")}
    help_of = [word for word in own if re.fullmatch("[a-z]+", word)]
    help_of = help_of[: 2 if own[0] in ("fault", "link", "generate", "data") else 1]
    result = CliRunner().invoke(main, [*help_of, "--help"])
    assert result.exit_code == 0, (line, result.output)
    assert options <= set(re.findall(r"(?<![\w-])--?[a-z-]+", result.output)), line
