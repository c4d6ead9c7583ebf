"""Whatever it is: a file is told by what it holds, a folder is a recording or a run of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay.sla.readers import ReadError, kube, ours, plain, sacctmgr
from gpuassay.target.recording import locate

if TYPE_CHECKING:
    from pathlib import Path

    from gpuassay.sla.outages import History
    from gpuassay.sla.readers import Reading

_EXPECTED = (
    "sacctmgr --parsable2 show event, nodes of Kubernetes as JSON, one outage a line as JSON "
    "(node, state, from, until, by, reason), or the folder of a recording"
)


def read(path: Path, how: Reading) -> History:
    """Read a history. Raises ReadError."""
    if path.is_dir():
        return ours.read(locate(path), how)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ReadError(f"{path}: cannot be read: {error}") from error
    if sacctmgr.is_it(text):
        return sacctmgr.read(text, str(path), how)
    if plain.is_it(text):
        return plain.read(text, str(path), how)
    if kube.is_it(text):
        return kube.read(text, str(path), how)
    raise ReadError(f"{path}: not a history of nodes; expected the output of {_EXPECTED}")
