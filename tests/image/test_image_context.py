"""The files that a build is sent: all that it needs, and the same bytes for the same files."""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path

import pytest
from docker.utils.build import exclude_paths

from testbed.errors import InvalidInput, UsageProblem
from testbed.image.build import Request, context_for
from testbed.image.context import EVERYTHING, Context, checkout, context_of, package, sources_of
from testbed.image.packages import CORE_STAGE, MORE_STAGE, STAGE, on_top_of

ROOT = Path(__file__).parents[2]


def test_a_checkout_is_sent_without_what_nobody_needs() -> None:
    assert checkout() == ROOT
    names = context_of(ROOT).names()
    assert {"Dockerfile", "pyproject.toml", "constraints.txt", "testbed/cli/main.py"} <= set(names)
    assert {"image/pip-install", "testbed/node/data/catalogue.py"} <= set(names)
    assert "testbed/topologies/bundled/wan16.xml" in names
    unwanted = (".git/", ".venv/", "tests/", "docs/", "results/", "scripts/", "examples/")
    assert not [name for name in names if name.startswith(unwanted) or "__pycache__" in name or name.endswith(".pyc")]


def test_testbed_itself_is_sent_whole() -> None:
    """Else every start would doubt the image."""
    assert context_of(ROOT).only("testbed").digest() == package().digest()


STRAY = (
    "lan4-compose/results/r/plan.json",
    "lan4-compose/data/set",
    "lan4-kollaps/x",
    "mine/results/x",
    "notes/x",
    "x",
)


@pytest.fixture
def littered(tmp_path: Path) -> Path:
    """A checkout in which people work."""
    for name in ("Dockerfile", ".dockerignore", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    own = ("algorithms/a.py", "algorithms/data/b.py", "algorithms/results/c", "image/pip-install", "examples/mine.py")
    for name in (*own, *STRAY):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def test_what_lies_about_in_a_checkout_is_left_there(littered: Path) -> None:
    names = {name for name in context_of(littered).names() if not name.startswith("testbed/")}
    own = {"algorithms/a.py", "algorithms/data/b.py", "image/pip-install"}
    assert names == {"Dockerfile", ".dockerignore", "pyproject.toml", "constraints.txt", *own}
    with (littered / "Dockerfile").open("a") as dockerfile:
        dockerfile.write("COPY examples/mine.py /opt/testbed/algorithms/\n")
    assert set(context_of(littered).names()) >= {*names, "examples/mine.py"}


def test_nobody_looks_into_what_nobody_needs(littered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be another user's: containers write as whom they are told to."""
    looked: list[str] = []
    look = os.listdir

    def listdir(path: str) -> list[str]:
        looked.append(Path(path).name)
        return look(path)

    monkeypatch.setattr(os, "listdir", listdir)
    context_of(littered)
    assert "algorithms" in looked
    assert not {"lan4-compose", "lan4-kollaps", "mine", "notes", "examples"} & set(looked)


def test_what_docker_itself_leaves_out(littered: Path) -> None:
    """`docker build .` goes by the .dockerignore alone."""
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    names = {name for name in exclude_paths(str(littered), patterns) if (littered / name).is_file()}
    assert not names & {"algorithms/results/c", *STRAY[:4]}
    assert {"algorithms/a.py", "algorithms/data/b.py", "examples/mine.py", *STRAY[4:]} <= names


def test_a_file_of_ones_own_that_cannot_be_read_is_named(littered: Path) -> None:
    context = context_of(littered)
    (littered / "algorithms/a.py").unlink()
    with pytest.raises(UsageProblem, match=r"cannot pack .*algorithms/a\.py: No such file"):
        context.archive()


@pytest.mark.parametrize(
    ("line", "sources"),
    [
        ("COPY a/b /c", {"a"}),
        ("  add --chown=1:1 a b/c /d/", {"a", "b"}),
        ("COPY ./a \\\n  b /c", {"a", "b"}),
        ('COPY ["a b", "c"]', {"a b"}),
        ("COPY constraints.txt algorithms/requirements.tx[t] /d", {"constraints.txt", "algorithms"}),
        ("COPY *.py /d", {"*.py"}),
        ("COPY --from=packages /opt /opt", set()),
        ("COPY . /d", {EVERYTHING}),
        ("COPY $WHAT /d", {EVERYTHING}),
        ("COPY ../a /d", {EVERYTHING}),
        ('COPY ["a, "c"]', {EVERYTHING}),
        ("# COPY a /d\nRUN echo COPY a b", set()),
    ],
)
def test_what_a_dockerfile_takes(line: str, sources: set[str]) -> None:
    assert sources_of(f"FROM x\n{line}\nRUN y\n") == sources


def test_the_same_files_are_the_same_bytes(tmp_path: Path) -> None:
    archives = []
    for number, names in enumerate((["b.txt", "a/x.py", "run"], ["run", "a/x.py", "b.txt"])):
        root = tmp_path / str(number)
        for name in names:
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
            path.chmod(0o755 if name == "run" else (0o600, 0o664)[number])
            os.utime(path, (1e9 * number, 1e9 * number))
        with context_of(root).with_extra({"z": b"1"}).archive() as file:
            archives.append(file.read())
    assert archives[0] == archives[1]
    with context_of(tmp_path / "0").archive() as file, tarfile.open(fileobj=file) as archive:
        found = {entry.name: (entry.mode, entry.mtime, entry.uid) for entry in archive if entry.isfile()}
    assert {"a/x.py", "b.txt", "run"} <= set(found)
    assert (found["run"], found["b.txt"]) == ((0o755, 0, 0), (0o644, 0, 0))


def test_the_order_of_names_does_not_count() -> None:
    names = [f"{number}.py" for number in range(20)]
    with (
        Context({}, dict.fromkeys(names, b"")).archive() as one,
        Context({}, dict.fromkeys(reversed(names), b"")).archive() as other,
    ):
        assert one.read() == other.read()


def test_bytecode_is_never_taken_along(tmp_path: Path) -> None:
    for name in ("a/__pycache__/x.pyc", "a/x.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    names = context_of(tmp_path).names()
    assert "a/x.py" in names
    assert not [name for name in names if "__pycache__" in name]


def test_a_change_is_a_change(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    context = Context({"a": tmp_path / "a"})
    with context.archive() as before, context.with_extra({"a": b"2"}).archive() as after:
        assert before.read() != after.read()
    assert context.with_extra({"a": b"2"}).read("a") == b"2"


def test_what_comes_on_top_of_the_packages() -> None:
    text = "# a\nARG X=1\nFROM ${BASE} AS packages\nRUN b\nFROM ${DEPENDENCIES} AS testbed\nCOPY c\nFROM d\n"
    cut = on_top_of(Context({}, {"Dockerfile": text.encode(), "e": b""}), STAGE)
    assert cut.read("Dockerfile") == b"# a\nARG X=1\nFROM ${DEPENDENCIES} AS testbed\nCOPY c\nFROM d\n"
    assert cut.names() == ["Dockerfile", "e"]
    own = Context({}, {"Dockerfile": b"FROM mine\nCOPY c\n"})
    assert on_top_of(own, STAGE).read("Dockerfile") == own.read("Dockerfile"), "a file of the user's is taken whole"
    for stage, left in ((STAGE, 5), (CORE_STAGE, 3), (MORE_STAGE, 1)):
        real = on_top_of(context_of(ROOT), stage).read("Dockerfile").decode()
        assert f"ARG {stage.upper()}=" in real.split("FROM ", 1)[0]
        assert real.count("\nFROM ") == left


def test_what_is_below_a_name() -> None:
    context = Context({}, {"image/x": b"", "imagery": b"", "image": b"", "other": b""})
    assert context.only("image").names() == ["image", "image/x"]


def test_code_and_packages_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("x = 1\n")
    (tmp_path / "list.txt").write_text("einops\n")
    context = context_for(Request(algorithms=(tmp_path / "mine.py",), requirements=tmp_path / "list.txt"))
    assert context.read("algorithms/mine.py") == b"x = 1\n"
    assert context.read("algorithms/requirements.txt") == b"einops\n"


def refused(*paths: Path) -> Exception:
    with pytest.raises((InvalidInput, UsageProblem)) as caught:
        context_for(Request(algorithms=paths))
    return caught.value


def test_a_file_that_is_no_python(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("x = 1\ndef f(:\n")
    problem = refused(bad)
    assert isinstance(problem, InvalidInput)
    assert (problem.findings[0].where.line, problem.findings[0].code) == (2, "syntax")
    bad.write_bytes(b"x = '\xff'\n")
    assert isinstance(refused(bad), InvalidInput)
    bad.write_bytes(b"\0")
    assert isinstance(refused(bad), InvalidInput)


def test_files_that_cannot_be_taken(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    assert "not a Python file" in str(refused(tmp_path / "notes.txt"))
    assert "No such file" in str(refused(tmp_path / "none.py"))
    (tmp_path / "large.py").write_bytes(b"#" * (4 * 2**20 + 1))
    assert "larger than 4 MiB" in str(refused(tmp_path / "large.py"))
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.py").write_text(f"# {folder}\n")
    assert "same name in the image" in str(refused(tmp_path / "one/same.py", tmp_path / "other/same.py"))
    assert context_for(Request(algorithms=(tmp_path / "one/same.py",) * 2)).names()
