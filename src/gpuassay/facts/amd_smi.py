"""``amd-smi static --json`` read as if sysfs had answered: the same document, so that one reader knows both.

ROCm 6 prints a list of GPUs; ROCm 7 wraps it in ``gpu_data``. A value with a unit is an object.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from gpuassay.facts.ras import UNSUPPORTED
from gpuassay.facts.record import Record
from gpuassay.facts.source import take
from gpuassay.facts.text import brief, no_value, pci_address
from gpuassay.judge.fact import Unread

if TYPE_CHECKING:
    from gpuassay.facts.source import Evidence

ITEM: Final = "amd-smi"
_MOST_GPUS: Final = 256
_TRUTHS: Final = {"ENABLED": True, "DISABLED": False}
_UNITS: Final = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_ABSENT: Final = {"unread": "not_found", "why": "this amd-smi does not print it"}


def answer(evidence: Evidence) -> Record:
    """Read what amd-smi printed, as one document for all GPUs."""
    fact = take(evidence, ITEM)
    if isinstance(fact, Unread):
        return Record(fact, fact.evidence)
    ref = fact.evidence
    try:
        said = json.loads(fact.value.out)
    except (ValueError, RecursionError):
        printed = brief(fact.value.out.decode(errors="replace"))
        return Record(Unread("garbled", f"amd-smi printed no JSON: {printed or 'nothing'}", ref), ref)
    gpus = said.get("gpu_data") if isinstance(said, dict) else said
    if not isinstance(gpus, list) or not all(isinstance(gpu, dict) for gpu in gpus):
        return Record(Unread("garbled", "amd-smi printed no list of GPUs", ref), ref)
    devices = [_device(index, gpu) for index, gpu in enumerate(gpus[:_MOST_GPUS])]
    return Record({"count": len(gpus), "devices": devices}, ref)


def _device(index: int, gpu: dict[str, Any]) -> dict[str, Any]:
    """Write one GPU as the reader of sysfs does; what is not printed says so."""
    address = _word(gpu, "bus", "bdf")
    return {
        "index": index,
        "pci": (pci_address(address) or address) if isinstance(address, str) else address,
        "name": _word(gpu, "asic", "market_name"),
        "uuid": _identity(_word(gpu, "asic", "asic_serial")),
        "serial": _serial(_word(gpu, "board", "product_serial")),
        "board_part": _word(gpu, "board", "model_number"),
        "vbios": _either(_word(gpu, "vbios", "part_number"), _word(gpu, "ifwi", "part_number")),
        "memory_total_bytes": _bytes(gpu),
        "ecc": {"current": _truth(_word(gpu, "ras", "ecc_block_state", "UMC")), "pending": UNSUPPORTED},
        "ecc_errors": _ABSENT,
        "bad_pages": _ABSENT,
        "remapped_rows": UNSUPPORTED,
        "partition": {
            "compute": _either(
                _word(gpu, "partition", "compute_partition"), _word(gpu, "partition", "accelerator_partition")
            ),
            "memory": _word(gpu, "partition", "memory_partition"),
            "listed": _ABSENT,
            "of": _ABSENT,
            "node": _ABSENT,
        },
        "xgmi_links": _ABSENT,
    }


def _word(gpu: Any, *path: str) -> Any:
    """Take a word at a path; what stands in place of one becomes the reason why there is none."""
    for key in path:
        if not isinstance(gpu, dict) or key not in gpu:
            return _ABSENT
        gpu = gpu[key]
    if not isinstance(gpu, str):
        return {"unread": "garbled", "why": f"{path[-1]} is no text"}
    absent = no_value(gpu)
    return {"unread": absent, "why": f"amd-smi says {gpu}"} if absent else gpu


def _either(one: Any, other: Any) -> Any:
    return one if isinstance(one, str) else other if isinstance(other, str) else one


def _identity(word: Any) -> Any:
    match = re.fullmatch(r"0x([0-9a-fA-F]{1,16})", word, re.ASCII) if isinstance(word, str) else None
    return f"GPU-{match[1].lower():0>16}" if match else word


def _serial(word: Any) -> Any:
    return (
        {"unread": "not_found", "why": "the board has no serial number written into it"}
        if word == "0"
        else word
    )


def _truth(word: Any) -> Any:
    if not isinstance(word, str):
        return word
    return _TRUTHS.get(word, {"unread": "garbled", "why": f"amd-smi says '{brief(word)}'"})


def _bytes(gpu: dict[str, Any]) -> Any:
    size = gpu["vram"].get("size") if isinstance(gpu.get("vram"), dict) else None
    if isinstance(size, dict) and type(size.get("value")) is int and size.get("unit") in _UNITS:
        return size["value"] * _UNITS[size["unit"]]
    return _ABSENT if size is None else {"unread": "garbled", "why": f"vram size is {brief(str(size))}"}
