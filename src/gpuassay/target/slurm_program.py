"""What a program of the cluster's operator starts, as far as its text says; the text itself is not kept."""

from __future__ import annotations

import json
from pathlib import Path

from gpuassay.evidence.item import Item
from gpuassay.facts.slurm import HEALTH
from gpuassay.facts.slurm_health import tools_in

_NHC_CONF = Path("/etc/nhc/nhc.conf")  # what LBNL's Node Health Check runs is listed there
_MOST = 1024**2


def words_of(program: str, seq: int) -> Item:
    """Name the well-known tools that a program's text starts. It may hold passwords: no more is kept."""
    asked = {"file": program}
    try:
        text = _text(Path(program))
        if "nhc" in Path(program).name and _NHC_CONF.is_file():
            text += "\n" + _text(_NHC_CONF)
            asked["configuration"] = str(_NHC_CONF)
    except FileNotFoundError:
        return Item(HEALTH, seq, "denied", asked, why=f"{program} is not on this machine, but on the nodes")
    except OSError as error:
        return Item(HEALTH, seq, "denied", asked, why=f"{program}: {error.strerror}")
    return Item(HEALTH, seq, "ok", asked, out=json.dumps({"tools": tools_in(text)}).encode())


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MOST).decode(errors="replace")
