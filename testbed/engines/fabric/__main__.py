"""The fabric's process: `python -m testbed.engines.fabric FOLDER`, where FOLDER has a `fabric.json`.

Says `ready` on standard output when nodes and control can reach it; ends on SIGTERM, when told to, or with whoever
leads the run. What is wrong with its configuration goes to standard error.
"""

from __future__ import annotations

import gc
import resource
import sys
from pathlib import Path

from testbed.engines.fabric.config import read_config
from testbed.engines.fabric.fabric import Fabric
from testbed.engines.fabric.start import READY
from testbed.engines.kernel import be_quick
from testbed.engines.privileges import drop_privileges
from testbed.errors import ExitCode, InvalidInput, TestbedError


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m testbed.engines.fabric FOLDER\n")
        return ExitCode.USAGE
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))  # two for every node
    try:
        fabric = Fabric(read_config(Path(arguments[0])))
    except TestbedError as problem:
        sys.stderr.write(f"{problem.message}\n")
        if isinstance(problem, InvalidInput):
            sys.stderr.writelines(f"{finding.message}\n" for finding in problem.findings)
        return problem.exit_code
    be_quick()
    drop_privileges()
    # What is there now stays: the collector need not look at it again while packets wait.
    gc.collect()
    gc.freeze()
    sys.stdout.buffer.write(READY)
    sys.stdout.flush()
    fabric.run()
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
