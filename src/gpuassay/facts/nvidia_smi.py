"""``nvidia-smi -q -x`` read as if NVML had answered: the same document, so that one reader knows both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from gpuassay.facts import smi_fabric, smi_health, smi_setup
from gpuassay.facts.record import Record
from gpuassay.facts.smi_words import TOOL as _TOOL
from gpuassay.facts.smi_words import number as _number
from gpuassay.facts.smi_words import said as _said
from gpuassay.facts.smi_words import truth as _truth
from gpuassay.facts.smi_words import word as _word
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Unread

if TYPE_CHECKING:
    from gpuassay.facts.source import Evidence

ITEM: Final = "nvidia-smi-xml"
_ROOT: Final = "nvidia_smi_log"
_NONE_FOUND: Final = "No devices were found"  # on standard output, exit status 6

_MOST_GPUS: Final = 256


def answer(evidence: Evidence) -> Record:
    """Read what nvidia-smi printed as NVML's document, whatever its exit status: it may print and fail."""
    item = evidence.item(ITEM)
    if item is None:
        return Record(Unread("not_asked", f"{ITEM} was not asked for"))
    ref = evidence.ref(item)
    printed, corrupted = smi_health.without_warnings(item.out)
    if printed.startswith((b"<?xml", b"<!DOCTYPE", b"<nvidia_smi_log")):
        log = _translate(printed, ref)
        if isinstance(log, dict):
            smi_health.tell_inforom(log["devices"], corrupted, item.status, item.exit)
        return Record(log, ref)
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
            "uncorrectable": _number(_said(gpu, f"{remapped}/remapped_row_unc")),
            "pending": _truth(_said(gpu, f"{remapped}/remapped_row_pending")),
            "failed": _truth(_said(gpu, f"{remapped}/remapped_row_failure")),
            "banks": {
                "none": _number(
                    _said(gpu, f"{remapped}/row_remapper_histogram/row_remapper_histogram_none"),
                    r"(\d{1,18}) bank\(s\)",
                )
            },
        },
        **smi_setup.told(gpu),
        **smi_health.told(gpu),
        "pcie": {
            "gen": _number(_said(gpu, f"{generation}/current_link_gen")),
            "gen_max": _number(_said(gpu, f"{generation}/max_link_gen")),
            "width": _number(_said(gpu, f"{width}/current_link_width"), r"(\d{1,3})x"),
            "width_max": _number(_said(gpu, f"{width}/max_link_width"), r"(\d{1,3})x"),
        },
        "fabric": smi_fabric.told(gpu),
    }
