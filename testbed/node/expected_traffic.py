"""The largest message that a node can expect.

Takes an `Experiment`, gives bytes; touches nothing.
"""

from __future__ import annotations

from testbed.experiment.language import Experiment
from testbed.node.declared import is_own
from testbed.node.messages import MAX_BUFFER, MAX_HEADER

_LARGEST = MAX_BUFFER // 2 - 1
_OWN_CODE_MODELS = 16
"""Allowance for a researcher's own algorithm, which may send several model-sized vectors in one message."""
_OWN_CODE_BYTES = 64 << 20


def largest_message_bytes(experiment: Experiment, parameters: int) -> int:
    """Upper bound of a message with its header: at most one value and one index per parameter."""
    model_bytes = 4 * parameters
    if is_own(experiment):
        return min(_LARGEST, max(_OWN_CODE_MODELS * model_bytes, _OWN_CODE_BYTES))
    return min(_LARGEST, 2 * model_bytes + MAX_HEADER)
