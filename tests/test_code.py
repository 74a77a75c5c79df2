"""Code that researchers name: found, or told what is wrong with it and where."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from testbed.code import CodeProblem, call, load_object, problem_in

pytestmark = pytest.mark.usefixtures("in_a_folder")


def problem_of(name: str) -> CodeProblem:
    with pytest.raises(CodeProblem) as caught:
        load_object(name)
    return caught.value


def caught_in(name: str) -> CodeProblem:
    """What calling the function of that name comes to."""
    function = load_object(name)
    assert callable(function)
    with pytest.raises(CodeProblem) as caught:
        call(name, function)
    return caught.value


def test_files_of_one_name_are_two_modules() -> None:
    for folder, value in (("one", 1), ("other", 2)):
        Path(folder).mkdir()
        Path(folder, "code.py").write_text(f"value = {value}\n")
    assert (load_object("one/code.py:value"), load_object("other/code.py:value")) == (1, 2)


@pytest.mark.processes
def test_a_module_s_name_is_the_same_in_every_process() -> None:
    Path("code.py").write_text("name = __name__\n")
    script = "from testbed.code import load_object; print(load_object('code.py:name'))"
    names = {
        subprocess.run(
            [sys.executable, "-c", script], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(names) == 1
    assert names.pop().startswith("testbed_user_code_")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere:A", "there is no module `nowhere`: it has to be installed or on PYTHONPATH"),
        ("nowhere.deep.down:A", "there is no module `nowhere`: it has to be installed or on PYTHONPATH"),
        ("json.nowhere:A", "there is no module `json.nowhere`: "),
        ("json:nowhere", "there is no `nowhere` in json"),
        ("json:lod", "did you mean `load`?"),
        ("nowhere.py:A", "there is no file nowhere.py"),
        (":A", "write module:Name or path/to/file.py:Name"),
        ("json:", "write module:Name or path/to/file.py:Name"),
    ],
)
def test_what_is_not_there(name: str, words: str) -> None:
    problem = problem_of(name)
    assert words in problem.message
    assert problem.file is None


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("\nclass A(:\n", 2, "SyntaxError"),
        ("\n\nimport nowhere\n", 3, "No module named 'nowhere'"),
        ("1 / 0\n", 1, "division by zero (ZeroDivisionError)"),
        ("import sys\nsys.exit('enough')\n", 2, "enough (SystemExit)"),
        ("raise ValueError\n", 1, "no further words (ValueError)"),
    ],
)
def test_a_file_that_cannot_be_run(text: str, line: int, words: str) -> None:
    Path("code.py").write_text(text)
    problem = problem_of("code.py:A")
    assert (problem.file, problem.line) == ("code.py", line)
    assert words in problem.message
    assert str(problem) == f"code.py:{line}: {problem.message}"


def test_the_place_is_the_innermost_that_is_a_researcher_s() -> None:
    own, through = "def own():\n    json.loads('{')\n", "def through(function):\n    function()\n"
    Path("code.py").write_text(f"import json\n\n\n{own}\n\n{through}")
    Path("more.py").write_text("def more():\n    raise KeyError('x')\n")
    told = caught_in("code.py:own")
    assert (told.file, told.line) == ("code.py", 5)
    calling, more = load_object("code.py:through"), load_object("more.py:more")
    assert callable(calling)
    with pytest.raises(CodeProblem) as caught:
        call("code.py:through", calling, more)
    assert (caught.value.file, caught.value.line) == ("more.py", 2)


def test_a_built_in_s_own_place_counts_when_it_is_the_one_named() -> None:
    try:
        load_object("testbed.code:load_object")(3)  # type: ignore[operator]
    except AttributeError as problem:
        told = problem_in("testbed.code:load_object", problem)
        assert told.file == "code.py"
        assert told.line
        elsewhere = problem_in("testbed.units:shown", problem)
    assert elsewhere.file == "test_code.py"


def test_without_any_place_of_theirs_the_file_is_named() -> None:
    Path("code.py").write_text("value = 1\n")
    told = problem_in("code.py:value", ValueError("no"))
    assert (told.file, told.line, str(told)) == ("code.py", None, "code.py: no (ValueError)")


def test_a_file_that_is_elsewhere_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, value in (("first", 1), ("second", 2), ("own", 3)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "code.py").write_text(f"value = {value}\n")
    (tmp_path / "second" / "other.py").write_text("value = 4\n")
    monkeypatch.setenv("TESTBED_CODE", f"{tmp_path / 'none'}:{tmp_path / 'first'}::{tmp_path / 'second'}")
    assert load_object("/home/somebody/code.py:value") == 1
    assert load_object("far/away/other.py:value") == 4
    assert load_object("own/code.py:value") == 3, "the file itself comes first"
    assert problem_of("far/away/nowhere.py:value").message == "there is no file far/away/nowhere.py"
    monkeypatch.delenv("TESTBED_CODE")
    assert problem_of("far/away/other.py:value").message == "there is no file far/away/other.py"


def test_without_folders_the_working_one_is_not_looked_in(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("code.py").write_text("value = 1\n")
    monkeypatch.setenv("TESTBED_CODE", "")
    assert problem_of("elsewhere/code.py:value").message == "there is no file elsewhere/code.py"
