"""`python -m soaks.algorithm_runs NAME SEED FOLDER [--local]`: one story again, which leaves its files in a new folder.

`experiment.json` and `topology.yaml` there can be deployed, and made smaller by hand.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from soaks.algorithm_runs.attempt import tried
from soaks.algorithm_runs.story import TOPOLOGY, drawn
from testbed.catalogue.algorithms import ALGORITHMS

parser = argparse.ArgumentParser(prog="python -m soaks.algorithm_runs")
parser.add_argument("name", choices=sorted(ALGORITHMS))
parser.add_argument("seed", type=int)
parser.add_argument("folder", type=Path)
parser.add_argument("--local", action="store_true", help="with real processes")
given = parser.parse_args()
story = drawn(given.name, given.seed)
given.folder.mkdir(parents=True)
(given.folder / TOPOLOGY).write_text(story.network.text)
(given.folder / "experiment.json").write_text(story.text)
verdict = tried(story, given.folder, "local" if given.local else "sim")
print(json.dumps({"good": verdict.is_good, "word": verdict.word, **verdict.figures}, indent=1))
raise SystemExit(not verdict.is_good)
