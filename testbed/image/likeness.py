"""Whether the testbed in an image is the one that starts containers of it.

Takes an image's name, gives words of doubt; asks the Engine, reads testbed's own files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.image.context import package
from testbed.image.facts import SOURCE_LABEL, VERSION_LABEL, code_in, labels_of

if TYPE_CHECKING:
    from docker import DockerClient


def doubt(engine: DockerClient, image: str) -> str | None:
    """Nothing where they are the same, to the byte."""
    labels = labels_of(engine, image)
    if labels.get(SOURCE_LABEL) == package().digest():
        return None
    code = [f"--algorithm {name}" for name in code_in(labels)]
    anew = f"`{' '.join(['testbed build', '--tag', image, *code])}` makes it anew"
    if SOURCE_LABEL in labels or VERSION_LABEL in labels:
        return f"the testbed in the image {image} is not this one, so its learners may do something else; {anew}"
    return f"nothing tells whether the testbed in the image {image} is this one; {anew}"
