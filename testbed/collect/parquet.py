"""A table as a Parquet file.

Takes a `Table`, gives the file's bytes; touches a temporary folder of its own. Needs the extra `parquet`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from testbed.collect.tables import Table
from testbed.errors import UsageProblem

_TYPES = {str: "VARCHAR", int: "BIGINT", float: "DOUBLE", bool: "BOOLEAN"}
_ROWS_AT_ONCE = 200
_CHECKOUT = Path(__file__).resolve().parents[2]
"""The repository, if testbed runs from a checkout."""


def parquet_bytes(table: Table) -> bytes:
    """The same columns as in CSV, with types; unknown values are null."""
    try:
        import duckdb
    except ImportError:
        raise UsageProblem(
            "Parquet needs duckdb, which is not installed", f"{_install()}, or use --format csv"
        ) from None
    columns = ", ".join(f'"{name}" {_TYPES[kind]}' for name, kind in zip(table.columns, table.types, strict=True))
    one = f"({', '.join('?' * len(table.columns))})"
    try:
        # Extensions that are not built in must not be downloaded.
        with (
            tempfile.TemporaryDirectory() as folder,
            duckdb.connect(config={"autoinstall_known_extensions": "false", "threads": "1"}) as database,
        ):
            database.execute(f"CREATE TABLE result ({columns})")
            for begin in range(0, len(table.rows), _ROWS_AT_ONCE):
                rows = table.rows[begin : begin + _ROWS_AT_ONCE]
                cells = [cell for row in rows for cell in row]
                database.execute(f"INSERT INTO result VALUES {', '.join([one] * len(rows))}", cells)  # noqa: S608
            file = Path(folder) / "result.parquet"
            database.table("result").write_parquet(str(file))
            return file.read_bytes()
    except duckdb.Error as problem:
        raise UsageProblem(f"these results do not fit into Parquet: {problem}", "use --format json or csv") from None


def _install() -> str:
    """The command that installs it: a checkout has a script with tested versions."""
    in_checkout = (_CHECKOUT / "scripts" / "venv").is_file()
    return "scripts/venv parquet" if in_checkout else "pip install 'testbed[parquet]'"
