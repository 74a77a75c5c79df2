"""Which test samples models are tried on.

Takes what each learner may be tested with and how many samples an evaluation shall have, gives the choice; touches
nothing. The choice stays the same throughout a run, so that scores can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from testbed.node.data.dataset import DataSet
from testbed.node.data.draws import permutation
from testbed.node.training_batch import Indices
from testbed.seeds import stream


def evaluation_parts(dataset: DataSet, tests: Sequence[Indices], samples: int, seed: int) -> list[Indices]:
    """Per learner at most that many of its test samples; last, so at -1, that many out of all.

    Learners who share their test samples are tried on the same ones.
    """
    chosen: dict[int, Indices] = {}
    parts: list[Indices] = []
    for own in (*tests, np.arange(len(dataset.test))):
        if id(own) not in chosen:
            positions = permutation(stream(seed, "evaluation"), len(own))[:samples]
            chosen[id(own)] = own[np.sort(positions)]
        parts.append(chosen[id(own)])
    return parts
