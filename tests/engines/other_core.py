"""A plugin of pytest: the compiled core is the library that TESTBED_TEST_CORE names."""

from __future__ import annotations

import os
from pathlib import Path

from testbed.engines.fabric.native_plane import library

library.LIBRARY = Path(os.environ["TESTBED_TEST_CORE"])
