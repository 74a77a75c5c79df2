"""Which test samples models are evaluated on.

Takes each learner's test samples and the number of samples of an evaluation, gives a choice; touches nothing. The
choice is the same throughout a run, so that scores can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from testbed.node.data.dataset import DataSet
from testbed.node.data.draws import permutation
from testbed.node.training_batch import Indices
from testbed.seeds import stream


def evaluation_parts(dataset: DataSet, tests: Sequence[Indices], samples: int, seed: int) -> list[Indices]:
    """Per learner at most `samples` of its test samples; the last entry has that many out of all.

    Learners that share their test samples get the same choice.
    """
    chosen: dict[int, Indices] = {}
    parts: list[Indices] = []
    for own in (*tests, np.arange(len(dataset.test))):
        if id(own) not in chosen:
            positions = permutation(stream(seed, "evaluation"), len(own))[:samples]
            chosen[id(own)] = own[np.sort(positions)]
        parts.append(chosen[id(own)])
    return parts
