"""`python -m testbed` runs the command `testbed`."""

from testbed.cli.main import main

main()
