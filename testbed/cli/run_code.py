"""What `deploy` says of code that cannot be used, before there is a run directory.

Takes what is wrong and where the experiment names it, raises InvalidInput; or says that only the image can tell.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from testbed.cli.run_choice import DOCKER
from testbed.code import OnlyHere, is_code

if TYPE_CHECKING:
    from testbed.experiment.language import Experiment
    from testbed.experiment.origin import Origin
    from testbed.node.named_code import WrongCode

_HINTS = {
    "algorithm": "write `class NAME(Algorithm)` with `async def run(self, node)`: docs/writing-an-algorithm.md",
    "sharing": "write `class NAME(Sharing)`: docs/writing-an-algorithm.md",
    "model": "write `class NAME(nn.Module)` whose first argument is the data set: docs/writing-a-model.md",
    "data": "write a function that takes `seed`: docs/data.md",
    "overlay": "write def overlay(count, degree, round, random): docs/experiment.md",
}


_NO_MODULE = f"install its package for the Python that runs testbed: {sys.executable} -m pip install …"


def refuse_wrong_code(experiment: Experiment, runtime: str, origin: Origin, say: Callable[[str], None]) -> None:
    """All code that the experiment names is loaded, if it names any."""
    choices = (experiment.algorithm, experiment.sharing, experiment.model, experiment.data)
    if not any(is_code(name) for name in (*(each.name for each in choices), experiment.overlay.kind)):
        return
    from testbed.node.named_code import wrong_code

    refuse(wrong_code(experiment), runtime, origin, say)


def refuse(wrong: WrongCode | None, runtime: str, origin: Origin, say: Callable[[str], None]) -> None:
    """Containers have packages and files of their own: what fails for want of those is not known to fail there."""
    if wrong is None:
        return
    if runtime == DOCKER and isinstance(wrong.problem, OnlyHere):
        say(f"warning: here the code fails, and only the image can tell whether it does there: {wrong.problem}")
        return
    report = origin.report()
    hint = _NO_MODULE if "ModuleNotFoundError" in str(wrong.problem) else _HINTS[wrong.key[0]]
    report.complain("code", str(wrong.problem), hint, *wrong.key)
    report.raise_if_wrong()
