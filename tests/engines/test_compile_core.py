"""Compiling the fabric's core, and loading what was compiled."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.engines.fabric.native_plane import abi, compile_core, library
from testbed.engines.fabric.native_plane.compile_core import CannotCompile, NoCompiler
from testbed.errors import PreflightRefused
from tests.engines.compiled_core import a_compiler, make_core, take

pytestmark = pytest.mark.processes

SCRIPT = Path(compile_core.__file__)
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    library.load.cache_clear()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The script and the sources in a folder of their own."""
    a_compiler()
    shutil.copytree(SCRIPT.with_name("core"), tmp_path / "copy" / "core")
    return Path(shutil.copy(SCRIPT, tmp_path / "copy"))


def run(script: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(script), *words], capture_output=True, text=True, check=False)


def denied() -> PreflightRefused:
    found = library.why_not()
    assert found is not None
    return found


# -- compiling ---------------------------------------------------------------------------------------------------------


def test_the_core_compiles_without_a_warning_and_can_be_loaded(copy: Path) -> None:
    done = run(copy, "--strict")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr.startswith(f"compiled {copy.with_name('fabric_core.so')} with ")
    core = ctypes.CDLL(str(copy.with_name("fabric_core.so")))
    core.core_sources.restype = ctypes.c_char_p
    assert core.core_sources().decode() == compile_core.digest()
    assert core.core_selftest() == 0


def test_it_is_compiled_anew_when_sources_have_changed_and_only_then(copy: Path) -> None:
    made = copy.with_name("fabric_core.so")
    assert run(copy, "--if-changed").returncode == 0
    before = made.stat().st_mtime_ns
    assert run(copy, "--if-changed").stderr == ""
    assert made.stat().st_mtime_ns == before
    with (copy.parent / "core" / "version.c").open("a") as source:
        source.write("/* more */\n")
    assert run(copy, "--if-changed").stderr.startswith("compiled")
    assert made.stat().st_mtime_ns > before
    assert sorted(each.name for each in copy.parent.iterdir()) == ["compile_core.py", "core", "fabric_core.so"]


def test_sources_that_do_not_compile_leave_the_library_as_it_was(copy: Path) -> None:
    assert run(copy).returncode == 0
    before = copy.with_name("fabric_core.so").read_bytes()
    (copy.parent / "core" / "wrong.c").write_text("static int unused(void) { return 1; }\n")
    done = run(copy, "--strict")
    assert done.returncode == 1
    assert "unused" in done.stderr, "warnings are errors"
    assert copy.with_name("fabric_core.so").read_bytes() == before
    assert run(copy).returncode == 0, "but not for those who only install"


def test_a_compiler_that_does_not_work_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    working = a_compiler()
    monkeypatch.setenv("CC", "false")
    assert compile_core.compile_core(tmp_path / "core.so") == working


def test_without_a_compiler_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_core, "_candidates", lambda: iter(()))
    with pytest.raises(NoCompiler, match="there is no C compiler"):
        compile_core.compile_core(tmp_path / "core.so")
    assert NoCompiler.exit_code != CannotCompile.exit_code


def test_where_nothing_can_be_written_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(CannotCompile, match=r"cannot write .*: No such file or directory"):
        compile_core.compile_core(tmp_path / "nowhere" / "core.so", a_compiler())


# -- loading -----------------------------------------------------------------------------------------------------------


def test_a_library_of_these_sources_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take(make_core(tmp_path / "core.so"), monkeypatch)
    assert library.why_not() is None
    assert library.compiler() == "a compiler 1.0"


def test_a_missing_library_is_told_with_a_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take(tmp_path / "core.so", monkeypatch)
    assert denied().message == "the fabric's compiled core is not there"
    assert "python -m testbed.engines.fabric.native_plane.compile_core" in denied().hint
    assert "pip install ziglang" in denied().hint


def test_what_is_no_library_or_lacks_functions_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Path(sys.executable).resolve()
    take(wrong, monkeypatch)
    assert denied().message.startswith(f"the fabric's compiled core cannot be loaded: {wrong}: ")
    other = tmp_path / "other.so"
    (tmp_path / "other.c").write_text("int core_abi(void);\nint core_abi(void) { return 1; }\n")
    subprocess.run(compile_core.command(a_compiler(), other, [tmp_path / "other.c"]), check=True)
    take(other, monkeypatch)
    assert "undefined symbol: core_abi" in denied().message, "it is not exported"


def test_a_library_that_was_cut_short_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system's loader then reads would end this process."""
    core = make_core(tmp_path / "core.so")
    whole = core.read_bytes()
    for size in (0, 4, 63, 64, 4096, len(whole) // 2, len(whole) - 1):
        cut = tmp_path / f"{size}.so"
        cut.write_bytes(whole[:size])
        take(cut, monkeypatch)
        assert denied().message == f"the fabric's compiled core cannot be loaded: {cut}: the file is damaged"
    take(core, monkeypatch)
    assert library.why_not() is None


def test_a_library_of_another_interface_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take(make_core(tmp_path / "core.so", abi=library.ABI + 1), monkeypatch)
    assert denied().message == (
        f"the fabric's compiled core has interface {library.ABI + 1} where {library.ABI} is needed"
    )
    with pytest.raises(PreflightRefused):
        library.load()


@pytest.mark.parametrize("name", ["core_wire", "core_lost"])
def test_a_library_of_other_structures_is_not_taken(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = abi.SIZES[name]
    take(make_core(tmp_path / "core.so", sizes={name: size + 8}), monkeypatch)
    assert denied().message == f"the fabric's compiled core has {size + 8} bytes in `{name}` where {size} are needed"


def test_a_library_of_other_sources_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take(make_core(tmp_path / "core.so", sources="0123456789abcdef"), monkeypatch)
    assert denied().message == "the fabric's compiled core is older than its sources"


def test_what_tests_the_cores_of_wheels_accepts_one_and_refuses_one_that_rounds_less(tmp_path: Path) -> None:
    """Packets would arrive at other times than in Python."""
    compiler = a_compiler()
    tester, core = tmp_path / "self-test", tmp_path / "core.so"
    subprocess.run([*compiler, str(ROOT / "scripts" / "core_self_test.c"), "-ldl", "-o", str(tester)], check=True)
    words = compile_core.command(compiler, core)
    subprocess.run(words, check=True)
    assert (
        "arrive when they should" in subprocess.run([tester, core], capture_output=True, text=True, check=True).stdout
    )
    if platform.machine() != "x86_64":
        return
    contracted = ["-ffp-contract=fast" if word == "-ffp-contract=off" else word for word in words]
    subprocess.run([*contracted, "-mfma"], check=True)
    if "fma" in Path("/proc/cpuinfo").read_text().split():
        assert "at other times" in subprocess.run([tester, core], capture_output=True, text=True, check=False).stderr
