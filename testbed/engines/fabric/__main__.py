"""The fabric's process: `python -m testbed.engines.fabric FOLDER PARENT`, where FOLDER has a `fabric.json`.

Says `ready` on standard output when nodes and control can reach it; ends on SIGTERM, when told to, with whoever leads
the run, or with its parent, whose process id is PARENT. What is wrong with its configuration goes to standard error.
"""

from __future__ import annotations

import gc
import signal
import sys
from pathlib import Path

from testbed.engines.fabric.config import read_config
from testbed.engines.fabric.fabric import Fabric
from testbed.engines.fabric.start import READY
from testbed.engines.kernel import be_quick, raise_open_file_limit
from testbed.engines.privileges import drop_privileges
from testbed.errors import ExitCode, InvalidInput, TestbedError
from testbed.parent import die_with_parent


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or not arguments[1].isdecimal():
        sys.stderr.write("usage: python -m testbed.engines.fabric FOLDER PARENT\n")
        return ExitCode.USAGE
    folder, parent = Path(arguments[0]), int(arguments[1])
    # Nobody leads it yet, nor is it recorded: until then only its parent knows of it. With SIGTERM its files get whole.
    die_with_parent(parent, signal.SIGTERM)
    raise_open_file_limit()  # two for every node
    try:
        fabric = Fabric(read_config(folder))
    except TestbedError as problem:
        sys.stderr.write(f"{problem.message}\n")
        if isinstance(problem, InvalidInput):
            sys.stderr.writelines(f"{finding.message}\n" for finding in problem.findings)
        return problem.exit_code
    be_quick()
    drop_privileges()
    die_with_parent(parent, signal.SIGTERM)
    # What is there now stays: the collector need not look at it again while packets wait.
    gc.collect()
    gc.freeze()
    sys.stdout.buffer.write(READY)
    sys.stdout.flush()
    fabric.run()
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
