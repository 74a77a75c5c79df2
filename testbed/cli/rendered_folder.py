"""Writes rendered files into a folder, without overwriting files of other origin.

Takes a `Manifest`, gives the paths; touches that folder only. `rendered.json` has the hashes of written files: a file
counts as rendered as long as it is unchanged.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from testbed.cli.output_file import write_atomically
from testbed.errors import UsageProblem
from testbed.manifests import Manifest
from testbed.run_files import read_plain

RECORD = "rendered.json"
_MOST_NAMED = 3


def write_manifest(folder: Path, manifest: Manifest, *, force: bool) -> list[Path]:
    """Writes all files, or none if one of them exists and was not rendered here; `force` overwrites those as well."""
    known = _known(folder)
    if not force:
        foreign = [name for name in (*manifest.files, RECORD) if not _may_write(folder, name, known)]
        if foreign:
            more = f" and {len(foreign) - _MOST_NAMED} more" if len(foreign) > _MOST_NAMED else ""
            names = ", ".join(str(folder / name) for name in foreign[:_MOST_NAMED])
            raise UsageProblem(
                f"not as `render` left it: {names}{more}", "give another folder with -o, or --force to write over it"
            )
    written = []
    for name, text in manifest.files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise UsageProblem(f"cannot make {path.parent}: {problem.strerror or problem}") from None
        write_atomically(path, text)
        written.append(path)
    ours = {name: _hash(text.encode()) for name, text in manifest.files.items()}
    record = {"files": {**(known or {}), **ours}}  # files for another orchestrator stay known
    write_atomically(folder / RECORD, json.dumps(record, indent=2) + "\n")
    return written


def _known(folder: Path) -> dict[str, str] | None:
    """Hashes of files rendered earlier; None where no such record can be read."""
    try:
        files = json.loads(read_plain(folder / RECORD, folder))["files"]
        return {str(name): str(digest) for name, digest in files.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _may_write(folder: Path, name: str, known: dict[str, str] | None) -> bool:
    path = folder / name
    try:
        if not path.exists() and not path.is_symlink():
            return True
        if name == RECORD:
            return known is not None
        return known is not None and known.get(name) == _hash(path.read_bytes())
    except OSError:
        return False


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
