"""Reads the messages of a Docker build: steps, lines of output, and the result.

Takes messages, gives progress and the image; touches nothing. A failed build is a TestbedError with the last lines of
output.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from testbed.errors import CouldNotStart, TestbedError
from testbed.image.engine_client import refused

_STEP = re.compile(r"Step (\d+)/(\d+) : (.*)")
_BUILT = re.compile(r"Successfully built ([0-9a-f]{12,64})")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_OWN = "TESTBED: "
"""Prefix of messages to the user in the output of our own scripts."""
_KEPT = 12
"""How many of the last lines an error shows."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The start of a build step, or a line of its output."""

    step: int
    steps: int
    text: str
    is_step: bool


Tell = Callable[[Progress], None]


def follow(messages: Iterable[Mapping[str, object]], tell: Tell) -> str:
    """Reports progress until the build ends; gives the image's id."""
    step = steps = 0
    built: str | None = None
    instruction = ""
    last: deque[str] = deque(maxlen=_KEPT)
    own = ""
    for message in messages:
        aux = message.get("aux")
        if isinstance(aux, Mapping) and isinstance(aux.get("ID"), str):
            built = str(aux["ID"])
        problem = message.get("error")
        if problem is not None:
            raise _failed(_plain(str(problem)), instruction, list(last), own)
        for line in str(message.get("stream", "")).splitlines():
            text = _plain(line)
            found = _STEP.fullmatch(text)
            if found:
                step, steps, instruction = int(found[1]), int(found[2]), found[3]
                last.clear()
                tell(Progress(step, steps, instruction, is_step=True))
            elif done := _BUILT.fullmatch(text):
                built = built or done[1]
            elif text and not text.startswith(("--->", "Removing intermediate container")):
                if text.startswith(_OWN):
                    own = text.removeprefix(_OWN)
                else:
                    last.append(text)
                tell(Progress(step, steps, text, is_step=False))
    if built is None:
        raise CouldNotStart("the Docker Engine ended the build without an image", "has it been restarted?")
    return built


def _plain(line: str) -> str:
    """The line without control characters: untrusted output must not control the terminal."""
    text = _COLOUR.sub("", line)
    return "".join(char if char.isprintable() else " " for char in text).strip()


def _failed(problem: str, instruction: str, last: list[str], own: str) -> TestbedError:
    everything = "\n".join([*last, problem])
    if "no space left on device" in everything.lower():
        return refused("no space left on device")
    hint = own
    if "pip: not found" in everything or "No module named pip" in everything:
        hint = (
            "there is no pip in the image: name packages in algorithms/requirements.txt, or in a file that "
            "`testbed build --requirements FILE` gets"
        )
    if "Temporary failure in name resolution" in everything or "CERTIFICATE_VERIFY_FAILED" in everything:
        hint = (
            "packages could not be fetched; docs/image.md tells how to build behind proxies, and offline with --wheels"
        )
    said = "\n".join(f"  | {line}" for line in last)
    shown = f"the image could not be built: {problem}\n  at: {instruction}"
    return CouldNotStart(f"{shown}\n{said}" if said else shown, hint)
