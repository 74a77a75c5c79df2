"""What comes over the wire has bounds, however well it is made."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.node.messages import MAX_HEADER, MalformedMessage, Message, from_frames


def test_a_header_has_a_bound() -> None:
    most = Message("m" * (MAX_HEADER - 20), 0).header
    assert MAX_HEADER - 20 < len(most) <= MAX_HEADER
    assert from_frames([most]).round == 0
    with pytest.raises(MalformedMessage, match="too long"):
        from_frames([Message("m" * MAX_HEADER, 0).header])


def test_a_buffer_has_the_size_of_its_shape() -> None:
    message = Message("model", 3, payload=(np.zeros((2, 3), np.float32),))
    assert from_frames([message.header, bytes(24)]).payload[0].shape == (2, 3)
    for size in (0, 20, 23, 25, 28, 48):
        with pytest.raises(MalformedMessage, match="for shape"):
            from_frames([message.header, bytes(size)])
