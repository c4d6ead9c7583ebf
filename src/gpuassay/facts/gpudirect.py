"""By what network adapters reach the memory of GPUs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpuassay.facts.source import document, text
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

_OPEN = "Open Kernel Module"
_PEERMEM = ("nvidia_peermem", "nv_peer_mem")
_DMA_BUF_KERNEL = (5, 12)  # NVIDIA, GPUDirect RDMA: the RDMA subsystem takes dma_buf from this one on
_RELEASE = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})(?![0-9])[!-~]*")
_MODULE = re.compile(r"NVRM version: [^\n]*Kernel Module")


def way(evidence: Evidence) -> Fact[str]:
    """Read by what NICs reach the memory of NVIDIA's GPUs: ``peermem``, ``dma_buf`` or ``none``."""
    modules = document(evidence, "gpudirect", missing="not_found")
    if isinstance(modules.values, Unread):
        return modules.values
    loaded = [name for name in _PEERMEM if name in modules.values]
    if loaded:
        return Read("peermem", modules.evidence, f"{loaded[0]} is loaded")
    module, kernel = text(evidence, "nvidia-module"), _kernel(evidence)
    if isinstance(module, Unread):
        return module
    if isinstance(kernel, Unread):
        return kernel
    if not _MODULE.match(module.value):
        return Unread("garbled", "the driver's version file names no kernel module", module.evidence)
    is_open = _OPEN in module.value
    if is_open and kernel.value >= _DMA_BUF_KERNEL:
        return Read("dma_buf", module.evidence)
    release = ".".join(map(str, kernel.value))
    which = "open" if is_open else "closed"
    note = f"no nvidia_peermem; the driver's kernel modules are the {which} ones, the kernel is {release}"
    return Read("none", module.evidence, note)


def gdrcopy(evidence: Evidence) -> Fact[bool]:
    """Read whether the module of GDRCopy is loaded."""
    modules = document(evidence, "gpudirect")
    if isinstance(modules.values, Unread):
        return modules.values
    return Read("gdrdrv" in modules.values, modules.evidence)


def _kernel(evidence: Evidence) -> Fact[tuple[int, int]]:
    release = document(evidence, "host").text("kernel", _RELEASE.pattern, "a release")
    if isinstance(release, Unread):
        return release
    major, minor = re.findall("[0-9]+", release.value)[:2]
    return Read((int(major), int(minor)), release.evidence)
