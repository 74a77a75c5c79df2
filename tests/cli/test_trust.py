"""`deploy` of real processes says what the code of others could do on this machine that it should not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from testbed.cli.main import main
from testbed.isolation.sandbox_check import SandboxSupport, sandbox_support
from testbed.runtimes import needs
from testbed.runtimes.processes.runtime import LocalRuntime
from testbed.runtimes.runtime import Checking
from tests.runtimes.local_runs import locally
from tests.runtimes.sim_runs import plan_of, star

OWN = {"algorithm": {"name": "mine.py:Mine"}}


@pytest.mark.parametrize(
    ("user", "how", "settings", "warned"),
    [
        (1000, SandboxSupport(), OWN, []),
        (0, SandboxSupport(), {}, []),
        (0, SandboxSupport(), OWN, ["as root, deploy itself has loaded the code that the experiment names"]),
        (1000, SandboxSupport("no"), {}, ["learners can read and change all files of yours: this machine denies"]),
        (0, SandboxSupport("no", "no"), {}, ["learners can read and change all files of root"]),
        (0, SandboxSupport(None, "no"), {}, ["learners are root, though they see few files"]),
    ],
)
def test_a_warning_says_what_could_happen(
    user: int, how: SandboxSupport, settings: dict[str, object], warned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(needs, "needs_of", lambda _: [])
    monkeypatch.setattr("testbed.isolation.sandbox_check.sandbox_support", lambda *_: how)
    said: list[str] = []
    checking = Checking(Path("r"), {}, said.append, force=False, is_fitted=True, dry=False)
    LocalRuntime().check(locally(plan_of(star(2), **settings), "none"), checking)
    assert [line.startswith(f"warning: {start}") for line, start in zip(said, warned, strict=True)] == [True] * len(
        said
    )


READS = """
from pathlib import Path
from testbed.node.algorithms.dpsgd import DPSGD


class Mine(DPSGD):
    async def run(self, node):
        node.note("read", Path({path!r}).{what})
        await super().run(node)
"""


def _deployed(folder: Path, code: str, *more: str, **environment: str) -> Result:
    source = folder / "code" / "mine.py"
    source.parent.mkdir(exist_ok=True)
    source.write_text(code)
    words = [*("deploy", "lan4", "--runtime", "local", "--engine", "none", "--data", "synthetic", "--rounds", "1")]
    words += ["--algorithm", f"{source}:Mine", "--results", str(folder / "results"), "--quiet", *more]
    return CliRunner().invoke(main, words, env=environment)


@pytest.mark.processes
@pytest.mark.skipif(sandbox_support().denied is not None, reason="learners see everything here")
def test_what_a_learner_does_not_see_can_be_shown_to_it(tmp_path: Path) -> None:
    wanted = tmp_path / "elsewhere" / "wanted.txt"
    wanted.parent.mkdir()
    wanted.write_text("seen")
    code = READS.format(path=str(wanted), what="read_text()")
    result = _deployed(tmp_path, code)
    assert result.exit_code == 6, result.output
    assert f"mine.py:8: [Errno 2] No such file or directory: '{wanted}'" in result.output
    assert f"{wanted} is there, but learners do not see it; TESTBED_VISIBLE={wanted.parent} shows it" in result.output
    result = _deployed(tmp_path, code, TESTBED_VISIBLE=str(wanted.parent))
    assert result.exit_code in (0, 7), result.output
    result = _deployed(tmp_path, READS.format(path=str(wanted), what="write_text('')"), TESTBED_VISIBLE=str(tmp_path))
    assert f"learners write to `node.folder` only, and to /tmp, which goes with them: not to {wanted}" in result.output
    for wrong, words in (("/not/there", "there is no /not/there"), ("/", "learners cannot be shown everything")):
        for dry in ((), ("--dry-run",)):
            result = _deployed(tmp_path, code, *dry, TESTBED_VISIBLE=wrong)
            assert (result.exit_code, words in result.output) == (2, True), result.output
