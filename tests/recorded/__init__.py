"""Recorded clusters: the healthy ones as committed, the faulty ones made from a description and its overlays.

``python tests/recorded NAME`` prints the folder of a recording, made if need be, to judge by hand;
``python tests/recorded`` writes the committed recordings anew.
"""

from recorded.build import build, commit, synthesize, write
from recorded.description import Description, DescriptionError, describe, faulty, healthy, read_faulty

__all__ = [
    "Description",
    "DescriptionError",
    "build",
    "commit",
    "describe",
    "faulty",
    "healthy",
    "read_faulty",
    "synthesize",
    "write",
]
