"""Compiles `core/*.c` into the shared library `fabric_core.so`.

Takes the C sources and a compiler, gives the library; touches that file only. It needs nothing but Python, since it
also runs where testbed is not installed: in the build of a wheel (`hatch_build.py`) and of the image.

    python -m testbed.engines.fabric.native_plane.compile_core [--if-changed] [--strict] [OUTPUT]

Its exit code is 1 if the compiler refuses the sources, and 3 if there is no compiler.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

CORE = Path(__file__).with_name("core")
LIBRARY = Path(__file__).with_name("fabric_core.so")
ZIGLANG = "ziglang>=0.13,<0.18"
"""The package that is a C compiler, for machines without one."""
GLIBC = "2.28"
"""The oldest C library on which what `zig` compiles can be loaded; torch needs that one, too."""
MACHINES = ("x86_64", "aarch64")
"""For which `scripts/wheels` makes wheels."""
_LANGUAGE = ("-std=c11", "-fPIC", "-shared", "-fvisibility=hidden", "-ffp-contract=off", "-D_GNU_SOURCE")
"""Without contraction a product and a sum are rounded one by one, as Python rounds them."""
_WARNINGS = (
    *("-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wstrict-prototypes", "-Wmissing-prototypes"),
    *("-Wpointer-arith", "-Wwrite-strings", "-Wundef", "-Wvla"),
)
_STRICT = ("-Werror", "-Wno-error=cpp")  # older C libraries warn that they know no _FORTIFY_SOURCE=3, and take 2
_HARDENED = ("-O2", "-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3")
_LINKED = ("-Wl,-z,relro,-z,now,-z,defs",)
_TRIAL = "#include <string.h>\nsize_t trial(const char *of);\nsize_t trial(const char *of) { return strlen(of); }\n"


class CannotCompile(Exception):
    """The compiler refuses the sources."""

    exit_code = 1


class NoCompiler(CannotCompile):
    """No compiler works."""

    exit_code = 3


def command(
    compiler: Sequence[str],
    output: Path,
    sources: Sequence[Path] | None = None,
    *,
    sanitizers: Sequence[str] = (),
    is_strict: bool = False,
) -> list[str]:
    """The command line that makes the library; with `sanitizers`, such as `address`, one for tests.

    `is_strict`: a warning is an error, as for those who change the sources. Compilers to come will know more of them.
    """
    checked = (
        f"-fsanitize={','.join(sanitizers)}",
        "-fno-sanitize-recover=all",
        "-fno-omit-frame-pointer",
        "-O1",
        "-g",
    )
    return [
        *compiler,
        *_LANGUAGE,
        *_WARNINGS,
        *(_STRICT if is_strict else ()),
        *(checked if sanitizers else (*_HARDENED, *_LINKED)),
        f'-DCORE_SOURCES="{digest()}"',
        *map(str, sorted(CORE.glob("*.c")) if sources is None else sources),
        *("-o", str(output), "-lm"),
    ]


def digest() -> str:
    """The SHA-256 of the sources and of this file, which has the flags."""
    whole = hashlib.sha256()
    for path in [*sorted(CORE.glob("*.[ch]")), Path(__file__)]:
        whole.update(f"{path.name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()[:16]


def zig(machine: str) -> list[str]:
    """`ziglang` as a compiler for that kind of machine with a C library not older than GLIBC."""
    return [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu.{GLIBC}"]


def installed() -> list[list[str]]:
    """The C compilers of this machine, the preferred one first: $CC, cc, gcc, clang."""
    names = [shlex.split(os.environ.get("CC", "")), ["cc"], ["gcc"], ["clang"]]
    return [each for each in names if each and shutil.which(each[0])]


def works(compiler: Sequence[str]) -> bool:
    """Whether it makes a shared library, for which many a compiler lacks the C library's headers."""
    with tempfile.TemporaryDirectory(prefix="testbed-") as folder:
        source = Path(folder, "trial.c")
        source.write_text(_TRIAL)
        return _run(command(compiler, Path(folder, "trial.so"), [source])) is None


def compile_core(output: Path = LIBRARY, compiler: Sequence[str] = (), *, is_strict: bool = False) -> Sequence[str]:
    """Makes the library whole or not at all, and gives the compiler: the given one, or else the first that works.

    A process that has loaded the library keeps the old one. Raises CannotCompile.
    """
    for each in [compiler] if compiler else _candidates():
        problem = _replace(output, each, is_strict=is_strict)
        if problem is None:
            return each
        if compiler or works(each):
            raise CannotCompile(f"`{shlex.join(each)}` cannot compile {CORE}:\n{problem}")
    raise NoCompiler("there is no C compiler (cc, gcc, clang), nor the package ziglang, which has one")


def _candidates() -> Iterator[list[str]]:
    yield from installed()
    if importlib.util.find_spec("ziglang") is not None:
        yield zig(platform.machine())


def _replace(output: Path, compiler: Sequence[str], *, is_strict: bool) -> str | None:
    """What the compiler said if it failed; else the output is new, in one step."""
    try:
        with tempfile.TemporaryDirectory(prefix=".testbed-core-", dir=output.parent) as folder:
            made = Path(folder, output.name)
            problem = _run(command(compiler, made, is_strict=is_strict))
            if problem is None:
                os.replace(made, output)
            return problem
    except OSError as problem:
        raise CannotCompile(f"cannot write {output}: {problem.strerror or problem}") from None


def _run(words: Sequence[str]) -> str | None:
    """What the compiler said if it failed."""
    with tempfile.TemporaryDirectory(prefix="testbed-zig-") as cache:
        caches = {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}  # not in the user's home
        try:
            done = subprocess.run(  # noqa: S603 - a compiler that this user has named or installed
                words, capture_output=True, text=True, errors="replace", env={**os.environ, **caches}, check=False
            )
        except OSError as problem:
            return f"{words[0]}: {problem.strerror or problem}"
    return None if done.returncode == 0 else f"{done.stdout}{done.stderr}".strip()


def is_current(library: Path = LIBRARY) -> bool:
    """Whether the library was made from these sources with these flags."""
    try:
        return f"{digest()}\0".encode() in library.read_bytes()
    except OSError:
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description="Compiles the fabric's core.")
    parser.add_argument("output", nargs="?", type=Path, default=LIBRARY)
    parser.add_argument("--if-changed", action="store_true", help="do nothing if the library is of these sources")
    parser.add_argument("--strict", action="store_true", help="a warning is an error")
    given = parser.parse_args()
    if not sys.platform.startswith("linux"):
        sys.stderr.write("the fabric runs on Linux only: there is nothing to compile\n")
        return 0
    if given.if_changed and is_current(given.output):
        return 0
    try:
        compiler = compile_core(given.output, is_strict=given.strict)
    except CannotCompile as problem:
        sys.stderr.write(f"{problem}\n")
        return problem.exit_code
    sys.stderr.write(f"compiled {given.output} with `{shlex.join(compiler)}`\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
