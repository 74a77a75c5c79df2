"""How pip on this machine finds packages: indexes, proxies, certificates. Builds get the same settings.

Takes nothing, gives settings; asks this Python's pip and the environment, reads certificates. No setting gets into an
image: they are used in a temporary build stage.
"""

from __future__ import annotations

import ast
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from testbed.errors import CouldNotStart, PreflightRefused, UsageProblem

_LINE = re.compile(r"(?P<section>global|install|download|wheel|:env:)\.(?P<key>[a-z-]+)=(?P<value>['\"].*)")
_SECTIONS = ("global", "wheel", "download", "install", ":env:")
"""Later sections take precedence, as in pip."""
PASSED_ON = ("index-url", "extra-index-url", "find-links", "trusted-host", "proxy", "timeout", "retries", "no-index")
_ALSO_CALLED = {"default-timeout": "timeout"}
_PLACES = ("index-url", "extra-index-url", "find-links")
_CERTIFICATES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY")
_PIP_S = 60.0
WHEELS = "image/wheels"
"""The folder of wheels in the build context."""
_LAST = 6


@dataclass(frozen=True)
class PipSettings:
    """pip's settings on this machine."""

    values: Mapping[str, str] = field(default_factory=dict)
    """By their names in pip's configuration. Several values of one setting are separate lines."""
    certificates: bytes | None = None
    """In PEM form."""
    proxies: Mapping[str, str] = field(default_factory=dict)
    """Environment variables, which the Docker Engine keeps out of an image's history."""

    @property
    def is_of_this_machine(self) -> bool:
        """Whether packages come from folders of this machine, which containers do not see."""
        places = " ".join(self.values.get(each, "") for each in _PLACES).split()
        return any(not re.match(r"(?!file:)[a-z+]+://", each, re.IGNORECASE) for each in places)

    def as_file(self) -> bytes:
        """pip's own configuration file."""
        lines = ["[global]"]
        for key, value in sorted(self.values.items()):
            lines.append(f"{key} = " + "\n    ".join(value.split()))
        return ("\n".join(lines) + "\n").encode()


def pip_settings(environment: Mapping[str, str] = os.environ) -> PipSettings:
    """This machine's settings, from all of pip's files and variables."""
    values = parsed(_configuration(environment))
    cert = values.pop("cert", None)
    names = [cert, *(environment.get(each) for each in _CERTIFICATES), ssl.get_default_verify_paths().cafile]
    names.append("/etc/ssl/certs/ca-certificates.crt")
    proxies = {name: environment[name] for each in _PROXIES for name in (each, each.lower()) if environment.get(name)}
    return PipSettings(
        {key: value for key, value in values.items() if key in PASSED_ON},
        next(filter(None, (_pem(name) for name in names if name)), None),
        proxies,
    )


def parsed(listing: str) -> dict[str, str]:
    """The output of `pip config list` by key; of several sections, the one that takes precedence."""
    found: dict[str, tuple[int, str]] = {}
    for line in listing.splitlines():
        match = _LINE.fullmatch(line.strip())
        if match is None:
            continue
        try:
            value = ast.literal_eval(match["value"])
        except (ValueError, SyntaxError):
            continue
        key = _ALSO_CALLED.get(match["key"], match["key"])
        rank = _SECTIONS.index(match["section"])
        if key not in found or rank >= found[key][0]:
            found[key] = (rank, str(value).strip())
    return {key: value for key, (_, value) in found.items()}


def _configuration(environment: Mapping[str, str]) -> str:
    """pip's configuration as pip prints it; without pip, from environment variables only."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    try:
        done = subprocess.run(  # noqa: S603 - this Python's own pip
            command, capture_output=True, text=True, env=dict(environment), timeout=_PIP_S, check=False
        )
        if done.returncode == 0:
            return done.stdout
    except (OSError, subprocess.TimeoutExpired):
        pass
    variables = {name: value for name, value in environment.items() if name.startswith("PIP_")}
    return "\n".join(
        f":env:.{name.removeprefix('PIP_').lower().replace('_', '-')}={value!r}" for name, value in variables.items()
    )


def _pem(name: str) -> bytes | None:
    try:
        data = Path(name).read_bytes()
    except OSError:
        return None
    return data if b"-----BEGIN CERTIFICATE-----" in data else None


def wheels_in(folder: Path) -> dict[str, Path]:
    """The wheels of a folder, by their names in the build context."""
    try:
        found = {f"{WHEELS}/{path.name}": path for path in sorted(folder.glob("*.whl")) if path.is_file()}
    except OSError as problem:
        raise UsageProblem(f"--wheels {folder}: {problem.strerror or problem}") from None
    if not folder.is_dir():
        raise UsageProblem(f"--wheels {folder}: there is no such folder")
    if not found:
        raise UsageProblem(
            f"--wheels {folder}: no wheels in it", "`pip wheel -c constraints.txt -w FOLDER .` gets them together"
        )
    return found


def collect(requirements: bytes, constraints: bytes, folder: Path, python: str) -> dict[str, Path]:
    """Wheels for these requirements, from pip here; refuses if the image has another version of Python."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if python.split(".")[:2] != here.split(".") or sys.platform != "linux":
        raise PreflightRefused(
            f"pip takes packages from folders of this machine, for Python {here}; the image has Python {python}",
            "get wheels for that together and give them with --wheels, or name an index that containers can reach",
        )
    (folder / "requirements.txt").write_bytes(requirements)
    (folder / "constraints.txt").write_bytes(constraints)
    wheels = folder / "wheels"
    command = [
        *(
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--disable-pip-version-check",
            "--prefer-binary",
            "--progress-bar",
            "off",
        ),
        *("--requirement", str(folder / "requirements.txt"), "--constraint", str(folder / "constraints.txt")),
        *("--wheel-dir", str(wheels)),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=False)  # noqa: S603
    except OSError as problem:
        raise CouldNotStart(f"cannot run pip: {problem.strerror or problem}") from None
    if done.returncode:
        said = [line for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()][-_LAST:]
        shown = "\n".join(f"  | {line}" for line in said)
        raise CouldNotStart(f"pip could not get the packages together:\n{shown}")
    return wheels_in(wheels)
