"""Downloads one file with an ordinary client: this machine's package managers, or plain HTTPS.

Takes the name of a package and an empty folder, gives the path of the archive in it; touches that folder and the
network. Nothing is installed, and root is not needed. Every failure is a `SourceFailed` with a readable reason.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from testbed.node.data.problems import SourceFailed

_TIMEOUT_S = 1800.0
"""For one package: the largest has 139 MB, and lines may be slow."""
_QUICK_S = 5.0
"""How long a site may take to answer at all."""
_CHUNK = 1 << 20
_LONGEST_REASON = 300


def apt_download(package: str, into: Path) -> Path:
    """Downloads a Debian package, by the machine's package lists or by lists fetched for this purpose."""
    client = _found("apt-get")
    quick = ["-q", "-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=10", "-o", "Acquire::https::Timeout=10"]
    # As root, apt would switch to a user that may not write here; for other users the setting has no effect.
    quick += ["-o", "APT::Sandbox::User=root"]
    try:
        run([client, *quick, "download", package], into)
    except SourceFailed:
        _apt_download_with_own_lists([client, *quick], package, into)
    return _only_file(into, ".deb")


def _apt_download_with_own_lists(client: Sequence[str], package: str, into: Path) -> None:
    """Uses private package lists: the machine's may be empty or stale, and only root may update them."""
    state, cache = into / "apt-state", into / "apt-cache"
    (state / "lists" / "partial").mkdir(parents=True)
    (cache / "archives" / "partial").mkdir(parents=True)
    private = [*client, "-o", f"Dir::State={state}", "-o", f"Dir::Cache={cache}", "-o", "Acquire::Languages=none"]
    try:
        trouble = _update(private, into)
        try:
            run([*private, "download", package], into)
        except SourceFailed as problem:
            raise SourceFailed(f"{problem}; {trouble}" if trouble else str(problem)) from None
    finally:
        shutil.rmtree(state, ignore_errors=True)
        shutil.rmtree(cache, ignore_errors=True)


def _update(client: Sequence[str], into: Path) -> str:
    """Fetches package lists; failures are returned, not raised, since the site that matters may be another one."""
    try:
        run([*client, "-o", "APT::Update::Error-Mode=any", "update"], into)
    except SourceFailed as problem:
        return str(problem)
    return ""


def npm_pack(package: str, version: str, into: Path) -> Path:
    """Downloads the archive of an npm package, with a private cache, so that no home folder is needed."""
    cache = into / "npm-cache"
    patience = ["--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=2000"]
    arguments = ["pack", f"{package}@{version}", "--loglevel=error", "--ignore-scripts", f"--cache={cache}", *patience]
    try:
        run([_found("npm"), *arguments], into)
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    return _only_file(into, ".tgz")


def pip_download(package: str, version: str, into: Path) -> Path:
    """Downloads the wheel of a Python package, without its dependencies."""
    client = [sys.executable, "-m", "pip"] if find_spec("pip") else [_found("pip3", "pip")]
    options = ["--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--retries=1"]
    run([*client, "download", "--quiet", *options, "--timeout=10", f"--dest={into}", f"{package}=={version}"], into)
    return _only_file(into, ".whl")


def https_download(url: str, into: Path, most_bytes: int) -> Path:
    """Downloads a file from a site; gives up soon when the site does not answer, and on larger files than expected."""
    target = into / url.rpartition("/")[2]
    if not url.startswith("https://"):
        raise SourceFailed(f"{url} is not HTTPS")
    give_up = time.monotonic() + _TIMEOUT_S
    request = Request(url, headers={"User-Agent": "testbed"})  # noqa: S310 - checked just above
    try:
        with urlopen(request, timeout=_QUICK_S) as answer, target.open("wb") as file:  # noqa: S310
            while chunk := answer.read(_CHUNK):
                if file.tell() + len(chunk) > most_bytes:
                    raise SourceFailed(f"{url} is larger than {most_bytes} bytes")
                if time.monotonic() > give_up:
                    raise SourceFailed(f"{url} takes too long")
                file.write(chunk)
    except (URLError, OSError, ValueError) as problem:
        reason = getattr(problem, "reason", None) or problem
        raise SourceFailed(f"{target.name}: {_short(str(reason)) or type(problem).__name__}") from None
    return target


def run(arguments: Sequence[str], folder: Path, timeout_s: float = _TIMEOUT_S) -> None:
    """Runs a client in a folder; shows its output only when it fails, and leaves none of its processes running."""
    name = "pip" if "pip" in arguments[:3] else Path(arguments[0]).name
    try:
        process = subprocess.Popen(  # noqa: S603 - no shell; arguments are ours
            arguments,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as problem:
        raise SourceFailed(f"cannot run {name}: {problem.strerror or problem}") from None
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise SourceFailed(f"{name} took more than {timeout_s:g} s") from None
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout:
            process.stdout.close()
    if process.returncode:
        raise SourceFailed(f"{name} failed ({process.returncode}): {_last_words(output)}")


def _last_words(output: bytes) -> str:
    """The most telling lines of a client's output: errors if it marks them, otherwise the end."""
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    marked = [line for line in lines if line.lower().startswith(("e:", "error", "npm err", "npm error"))]
    return _short("; ".join(dict.fromkeys(marked[:3] or lines[-3:]))) or "it said nothing"


def _short(text: str) -> str:
    cut = text if len(text) <= _LONGEST_REASON else text[: _LONGEST_REASON - 1] + "…"
    return "".join(char if char.isprintable() else " " for char in cut)


def _found(*names: str) -> str:
    for name in names:
        if path := shutil.which(name):
            return path
    raise SourceFailed(f"{' or '.join(names)} is not installed here")


def _only_file(folder: Path, ending: str) -> Path:
    files = sorted(folder.glob(f"*{ending}"))
    if len(files) != 1:
        raise SourceFailed(f"expected one {ending} file, got {len(files)}")
    return files[0]
