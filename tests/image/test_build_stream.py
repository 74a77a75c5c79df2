"""What the Engine tells while it builds becomes progress, an image, or a sentence."""

from __future__ import annotations

import pytest

from testbed.errors import CouldNotStart, ExitCode, TestbedError
from testbed.image.build_stream import Progress, follow


def said(*lines: str) -> list[dict[str, object]]:
    return [{"stream": f"{line}\n"} for line in lines]


def failed(messages: list[dict[str, object]]) -> TestbedError:
    with pytest.raises(TestbedError) as caught:
        follow(messages, lambda _: None)
    return caught.value


def test_steps_lines_and_the_image() -> None:
    told: list[Progress] = []
    messages = said(
        "Step 1/2 : FROM a", " ---> 0123456789ab", "Step 2/2 : RUN b", "hello\nyou", "Removing intermediate container x"
    )
    built = follow([*messages, {"aux": {"ID": "sha256:full"}}, *said("Successfully built 0123456789ab")], told.append)
    assert built == "sha256:full"
    assert told == [
        Progress(1, 2, "FROM a", is_step=True),
        Progress(2, 2, "RUN b", is_step=True),
        Progress(2, 2, "hello", is_step=False),
        Progress(2, 2, "you", is_step=False),
    ]


def test_nothing_of_it_moves_a_terminal_s_cursor() -> None:
    told: list[Progress] = []
    messages = said("Step 1/1 : RUN a", "\x1b[31mred\x1b[0m", "a\x07b\x1b]0;title", "\x1b[0m")
    with pytest.raises(CouldNotStart) as caught:
        follow([*messages, {"error": "\x1b[2Jno"}], told.append)
    problem = caught.value.message
    assert [each.text for each in told[1:]] == ["red", "a b ]0;title"]
    assert "\x1b" not in problem
    assert "could not be built: no\n" in problem


def test_an_older_engine_tells_only_the_short_id() -> None:
    assert follow(said("Successfully built 0123456789ab"), lambda _: None) == "0123456789ab"


def test_a_failure_shows_the_step_and_its_last_lines() -> None:
    lines = [f"line {number}" for number in range(40)]
    problem = failed([*said("Step 1/1 : RUN pip", *lines), {"error": "returned a non-zero code: 1"}])
    assert problem.exit_code is ExitCode.NOT_STARTED
    assert "at: RUN pip" in problem.message
    assert "| line 39" in problem.message
    assert "| line 28\n" in problem.message
    assert "line 27" not in problem.message


def test_lines_of_an_earlier_step_are_not_to_blame() -> None:
    problem = failed([*said("Step 1/2 : RUN a", "fine", "Step 2/2 : RUN b"), {"error": "no"}])
    assert "fine" not in problem.message


def test_words_of_our_own_are_the_hint() -> None:
    problem = failed([*said("Step 1/1 : RUN a", "TESTBED: take another"), {"error": "no"}])
    assert problem.hint == "take another"


@pytest.mark.parametrize(
    ("message", "code", "words"),
    [
        ({"error": "write: no space left on device"}, ExitCode.REFUSED, "no space left"),
        ({"error": "CERTIFICATE_VERIFY_FAILED"}, ExitCode.NOT_STARTED, "docs/image.md"),
    ],
)
def test_well_known_troubles(message: dict[str, object], code: ExitCode, words: str) -> None:
    problem = failed([message])
    assert problem.exit_code is code
    assert words in problem.message + problem.hint


def test_a_disk_that_is_full_within_a_step() -> None:
    problem = failed([*said("Step 1/1 : RUN a", "OSError: [Errno 28] No space left on device"), {"error": "code: 1"}])
    assert problem.exit_code is ExitCode.REFUSED


def test_an_engine_that_went_away() -> None:
    assert isinstance(failed(said("Step 1/2 : FROM a")), CouldNotStart)
