"""``nvidia-smi -q -x`` read as if NVML had answered: the same document, so that one reader knows both."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from gpuassay.facts import nvlink_fabric
from gpuassay.facts.record import Record
from gpuassay.facts.text import brief, no_value
from gpuassay.judge.fact import Unread

if TYPE_CHECKING:
    from gpuassay.facts.source import Evidence

ITEM: Final = "nvidia-smi-xml"
_TOOL: Final = "nvidia-smi"
_ROOT: Final = "nvidia_smi_log"
_NONE_FOUND: Final = "No devices were found"  # on standard output, exit status 6

_TRUTHS: Final = {"Yes": True, "No": False, "Enabled": True, "Disabled": False}
_MOST_GPUS: Final = 256

_STATES: Final = {"not started": 1, "in progress": 2, "completed": 3}
_HEALTH: Final = {
    "bandwidth": nvlink_fabric.DEGRADED,
    "route_recovery_in_progress": nvlink_fabric.RECOVERING,
    "route_unhealthy": nvlink_fabric.UNHEALTHY,
    "access_timeout_recovery": nvlink_fabric.TIMED_OUT,
    "partition_assigned": nvlink_fabric.PARTITION,
}
_BITS: Final = {"Degraded": 1, "True": 1, "Full": 2, "False": 2}
_SUMMARIES: Final = {"Healthy": 1, "Unhealthy": 2, "Limited Capacity": 3}


def answer(evidence: Evidence) -> Record:
    """Read what nvidia-smi printed as NVML's document, whatever its exit status: it may print and fail."""
    item = evidence.item(ITEM)
    if item is None:
        return Record(Unread("not_asked", f"{ITEM} was not asked for"))
    ref = evidence.ref(item)
    printed = item.out.lstrip()
    if printed.startswith((b"<?xml", b"<!DOCTYPE", b"<nvidia_smi_log")):
        return Record(_translate(printed, ref), ref)
    said = brief(printed.decode(errors="replace"))
    if said == _NONE_FOUND:
        return Record({"count": 0, "devices": []}, ref)
    if item.status == "ok":
        return Record(Unread("garbled", f"{_TOOL} printed no XML: {said or 'nothing'}", ref), ref)
    return Record(
        Unread(item.status, said or brief(item.why or item.err) or f"{_TOOL}: {item.status}", ref), ref
    )


def _translate(xml: bytes, ref: str) -> dict[str, Any] | Unread:
    log, problem = _read(xml)
    if log is None:
        return Unread("garbled", f"{_TOOL}'s XML: {problem or f'it is no {_ROOT}'}", ref)
    count = _number(_said(log, "attached_gpus"))
    devices = [_device(index, gpu) for index, gpu in enumerate(log.findall("gpu"))]
    if problem and isinstance(count, int):
        cut = {"unread": "garbled", "why": f"{_TOOL}'s XML is not whole: {problem}"}
        devices += [{"index": index, **cut} for index in range(len(devices), min(count, _MOST_GPUS))]
    return {"driver": _word(_said(log, "driver_version")), "count": count, "devices": devices}


def _read(xml: bytes) -> tuple[Element | None, str]:
    """Read the log as far as its parts are whole, and say what is wrong with the rest.

    Entities are refused (a few lines of them unfold to gigabytes); nvidia-smi's own DOCTYPE has none.
    """
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.EntityDeclHandler = reader.refuse
    try:
        parser.Parse(xml, True)  # noqa: FBT003 - it takes no names
    except (expat.ExpatError, LookupError, ValueError) as error:  # LookupError, ValueError: odd encodings
        return reader.log, brief(str(error))
    return reader.log, ""


class _Reader:
    """Keeps each part of the log as it ends."""

    def __init__(self) -> None:
        self.log: Element | None = None
        self._depth = 0
        self._part = TreeBuilder()

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if self._depth == 0 and tag == _ROOT:
            self.log = Element(tag)
        if self._depth == 1:
            self._part = TreeBuilder()
        if self._depth:
            self._part.start(tag, attributes)
        self._depth += 1

    def text(self, text: str) -> None:
        if self._depth > 1:
            self._part.data(text)

    def end(self, tag: str) -> None:
        self._depth -= 1
        if self._depth:
            self._part.end(tag)
        if self._depth == 1 and self.log is not None:
            self.log.append(self._part.close())

    def refuse(self, name: str, *_: object) -> None:
        raise ValueError(f"it declares an entity, {name}")


def _device(index: int, gpu: Element) -> dict[str, Any]:
    """Write one GPU as NVML's answers are written."""
    remapped, width = "remapped_rows", "pci/pci_gpu_link_info/link_widths"
    generation = "pci/pci_gpu_link_info/pcie_gen"
    return {
        "index": index,
        "pci": _word(gpu.get("id") or _said(gpu, "pci/pci_bus_id")),
        "pci_device_id": _word(_said(gpu, "pci/pci_device_id")),
        "name": _word(_said(gpu, "product_name")),
        "uuid": _word(_said(gpu, "uuid")),
        "serial": _word(_said(gpu, "serial")),
        "pstate": _number(_said(gpu, "performance_state"), r"P(\d{1,2})"),
        "ecc": {
            "current": _truth(_said(gpu, "ecc_mode/current_ecc")),
            "pending": _truth(_said(gpu, "ecc_mode/pending_ecc")),
        },
        "remapped_rows": {
            "pending": _truth(_said(gpu, f"{remapped}/remapped_row_pending")),
            "failed": _truth(_said(gpu, f"{remapped}/remapped_row_failure")),
            "banks": {
                "none": _number(
                    _said(gpu, f"{remapped}/row_remapper_histogram/row_remapper_histogram_none"),
                    r"(\d{1,18}) bank\(s\)",
                )
            },
        },
        "pcie": {
            "gen": _number(_said(gpu, f"{generation}/current_link_gen")),
            "width": _number(_said(gpu, f"{width}/current_link_width"), r"(\d{1,3})x"),
            "width_max": _number(_said(gpu, f"{width}/max_link_width"), r"(\d{1,3})x"),
        },
        "fabric": _fabric(gpu),
    }


def _fabric(gpu: Element) -> dict[str, Any]:
    """Write the place in an NVLink fabric: numbers where NVML has numbers, else the tool's words."""
    state = _word(_said(gpu, "fabric/state"))
    if isinstance(state, dict):
        return state
    parts = {shift: _said(gpu, f"fabric/health/{tag}") for tag, shift in _HEALTH.items()}
    configuration, summary = (
        _said(gpu, "fabric/health/incorrect_configuration"),
        _said(gpu, "fabric/health/summary"),
    )
    told = {
        "state": _STATES.get(state.casefold(), _odd(state)),
        "status": _word(_said(gpu, "fabric/status")),
        "cluster": _word(_said(gpu, "fabric/clusterUuid")),
        "clique": _number(_said(gpu, "fabric/cliqueId")),
        "health_mask": sum(_BITS.get(part or "", 0) << shift for shift, part in parts.items()),
        "health_summary": _SUMMARIES.get(summary or "", 0),
    }
    if isinstance(configuration, str) and configuration not in ("", "None") and not no_value(configuration):
        told["configuration"] = configuration
    return told


def _said(element: Element, path: str) -> str | None:
    """Find what is said at a path; a part may say one word for all that is below: ``GPU is lost``."""
    for tag in path.split("/"):
        child = element.find(tag)
        if child is None:
            return (element.text or "").strip() or None
        element = child
    return (element.text or "").strip()


def _word(said: str | None) -> Any:
    if said is None:
        return {"unread": "not_found", "why": f"this {_TOOL} does not print it"}
    absent = no_value(said)
    return {"unread": absent, "why": f"{_TOOL} says {said}"} if absent else said


def _number(said: str | None, pattern: str = r"(\d{1,18})") -> Any:
    word = _word(said)
    match = re.fullmatch(pattern, word, re.ASCII) if isinstance(word, str) else None
    return int(match[1]) if match else _odd(word)


def _truth(said: str | None) -> Any:
    word = _word(said)
    return _TRUTHS.get(word, _odd(word)) if isinstance(word, str) else word


def _odd(word: Any) -> Any:
    """Say that a text is no value of its kind, unless it is said already why there is none."""
    return {"unread": "garbled", "why": f"{_TOOL} says '{brief(word)}'"} if isinstance(word, str) else word
