"""`python -m testbed` is `testbed`."""

from testbed.cli.main import main

main()
