"""`scripts/soak` tries what is missing, keeps every try, and is passed only when enough were good."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from soaks import __main__ as command_line
from soaks import busy as busy_cores
from soaks import first_run, seeds
from soaks.listed import ALL
from soaks.soak import ROOT, Case, Soak, Verdict
from soaks.tries import Conditions, append, commit_of, read
from soaks.trying import attempted, is_passed, table

HERE = Conditions("s", "abc", 0)


def soak(made: list[tuple[str, int]], bad: tuple[int, ...] = ()) -> Soak:
    """Of two cases, which are good but for some tries of the second."""

    def case(name: str) -> Case:
        def attempt(folder: Path, number: int) -> Verdict:
            assert list(folder.iterdir()) == []
            made.append((name, number))
            is_good = name == "one" or number not in bad
            return Verdict(is_good, "valid" if is_good else "overloaded", {"why": [], "computing": {"late": 0}})

        return Case(name, attempt)

    return Soak("s", "", (case("one"), case("two")), lambda _: 3, lambda tries, busy: tries - 1 if busy else tries)


def test_every_try_is_kept_and_none_is_made_twice(tmp_path: Path) -> None:
    made: list[tuple[str, int]] = []
    file, said = tmp_path / "new" / "tries.jsonl", list[str]()
    done = attempted(soak(made), HERE, 1, file, said.append)
    assert made == [("one", 0), ("two", 0)]
    assert [(each.case, each.verdict, each.commit, each.busy) for each in done] == [
        ("one", "valid", "abc", 0),
        ("two", "valid", "abc", 0),
    ]
    assert all(each.load >= 0 and each.date.endswith("+00:00") and each.seconds >= 0 for each in done)
    attempted(soak(made), HERE, 2, file, said.append)
    assert made[2:] == [("one", 1), ("two", 1)]
    assert len(read(file, HERE)) == len(file.read_bytes().splitlines()) == 4


def test_one_that_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    made: list[tuple[str, int]] = []

    def stopped(*_: object) -> Verdict:
        raise KeyboardInterrupt

    first = soak(made).cases[0]
    half = Soak("s", "", (first, Case("two", stopped)), lambda _: 2, lambda tries, _: tries)
    with pytest.raises(KeyboardInterrupt):
        attempted(half, HERE, 2, tmp_path / "t", lambda _: None)
    assert made == [("one", 0)]
    attempted(soak(made), HERE, 2, tmp_path / "t", lambda _: None)
    assert made == [("one", 0), ("two", 0), ("one", 1), ("two", 1)]


@pytest.mark.processes
@pytest.mark.parametrize("other", [Conditions("s", "def", 0), Conditions("s", "abc", 1), Conditions("r", "abc", 0)])
def test_tries_of_another_commit_load_or_soak_do_not_count(tmp_path: Path, other: Conditions) -> None:
    attempted(soak([]), other, 1, tmp_path / "t", lambda _: None)
    assert read(tmp_path / "t", HERE) == []


def test_a_line_that_a_crash_has_cut_off_costs_that_try_alone(tmp_path: Path) -> None:
    file = tmp_path / "t"
    one, two = attempted(soak([]), HERE, 1, file, lambda _: None)
    file.write_bytes(file.read_bytes()[:-9])
    append(file, two)
    assert read(file, HERE) == [one, two]


@pytest.mark.parametrize(
    ("bad", "busy", "passes"), [((), 0, True), ((1,), 0, False), ((1,), 1, True), ((0, 1), 1, False)]
)
def test_enough_tries_must_be_good(tmp_path: Path, bad: tuple[int, ...], busy: int, passes: bool) -> None:
    tried = soak([], bad)
    done = attempted(tried, Conditions("s", "abc", 0), 3, tmp_path / "t", lambda _: None)
    assert is_passed(tried, done, 3, busy) is passes
    assert not is_passed(tried, done[:-1], 3, busy), "one is missing"
    assert not is_passed(tried, done, 4, busy)
    said = table(tried, done, 3, busy)[-1].split(" | ")
    assert said[:2] == ["| two", str(3 - len(bad))]
    assert said[4] == ("overloaded" if bad else "–")


@pytest.mark.processes
def test_a_commit_has_a_mark_while_something_is_changed_or_new(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        of_nobody = ("-c", "user.name=nobody", "-c", "user.email=nobody@localhost")
        subprocess.run(["git", "-C", tmp_path, *of_nobody, *words], check=True, capture_output=True)  # noqa: S607

    git("init")
    (tmp_path / "old.py").write_text("a = 1")
    (tmp_path / ".gitignore").write_text("/results/")
    git("add", ".")
    git("commit", "-m", "all")
    clean = commit_of(tmp_path)
    assert (len(clean), "+" in clean) == (12, False)
    tries = tmp_path / "tries.jsonl"
    (tmp_path / "results").mkdir()
    for file in (tmp_path / "results" / "any", tries):
        file.write_text("{}")
    assert commit_of(tmp_path, tries) == clean, "what is ignored, and the tries themselves, change nothing"
    found = {clean}
    for name, text in (("old.py", "a = 2"), ("new.py", "a = 1"), ("new.py", "a = 2"), ("newer.py", "a = 2")):
        (tmp_path / name).write_text(text)
        found.add(commit_of(tmp_path, tries))
    assert len(found) == 5
    assert all(each.startswith(clean) for each in found)


@pytest.mark.parametrize("answers", [True, False])
def test_a_run_that_hangs_is_ended_and_is_a_try(answers: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def hangs(words: list[str], **more: float) -> subprocess.CompletedProcess[str]:
        asked.append(words[3:])
        if words[3] == "deploy" or not answers:
            raise subprocess.TimeoutExpired(words, more["timeout"])
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(subprocess, "run", hangs)
    verdict = first_run.SOAK.cases[0].attempt(tmp_path, 0)
    assert (verdict.is_good, verdict.word, verdict.figures["destroyed"]) == (False, "hung", answers)
    assert [words[0] for words in asked] == ["deploy", "destroy"]
    assert asked[1][1] == str(tmp_path / "results" / "soak")


@pytest.mark.parametrize("output", [None, b"half\n...F"])
def test_tests_that_hang_are_a_try(output: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(words: list[str], **more: float) -> None:
        raise subprocess.TimeoutExpired(words, more["timeout"], output)

    monkeypatch.setattr(subprocess, "run", hangs)
    verdict = seeds.SOAK.cases[0].attempt(tmp_path, 0)
    assert (verdict.is_good, verdict.word) == (False, "hung")
    assert verdict.figures["said"] == (["...F"] if output else [])


def test_what_a_run_says_of_itself_is_the_verdict() -> None:
    summary = json.loads((ROOT / "tests/fixtures/runs/0.1.0/local/summary.json").read_text())
    verdict = first_run.judged(summary)
    assert (verdict.is_good, verdict.word) == (True, "valid")
    assert verdict.figures["computing"] == summary["computing"]
    assert not first_run.judged(summary | {"health": "overloaded"}).is_good
    assert not first_run.judged(summary | {"reason": "failed"}).is_good


def test_the_first_run_is_the_quickstart_s() -> None:
    words = first_run.quickstart_words()
    assert words[0] == "topologies/wan16.xml"
    assert "--rounds" in words
    assert [case.name for case in first_run.SOAK.cases] == ["quickstart", "lan4", "lan16", "wan16"]
    assert (first_run.SOAK.tries(0), first_run.SOAK.tries(1)) == (20, 10)
    assert (first_run.SOAK.wanted(20, 0), first_run.SOAK.wanted(10, 1)) == (20, 9)


def test_soaks_have_names_of_their_own_and_seeds_finds_property_tests() -> None:
    assert {name: each.name for name, each in ALL.items()} == {name: name for name in ALL}
    found = seeds.property_tests()
    assert "tests/topologies/test_fuzz.py" in found
    assert "tests/test_soak.py" not in found


@pytest.mark.processes
def test_cores_are_kept_busy_for_as_long_as_it_takes() -> None:
    with busy_cores.kept_busy(1) as (pid,):
        assert Path(f"/proc/{pid}/cmdline").exists()
    assert not Path(f"/proc/{pid}/cmdline").exists()


@pytest.mark.processes  # git is asked for the commit
def test_single_cases_are_asked_for_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[tuple[str, int]] = []
    monkeypatch.setitem(ALL, "s", soak(made))
    words = ["s", "--tries", "1", "--results", str(tmp_path / "tries.jsonl")]
    assert command_line.main([*words, "--case", "two"]) == 0
    assert made == [("two", 0)]
    with pytest.raises(SystemExit):
        command_line.main([*words, "--case", "three"])
    assert "s has no case three; there are: one, two" in capsys.readouterr().err
