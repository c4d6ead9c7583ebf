"""Reads files, trees and libraries in one child process, which is replaced when a read blocks or kills it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Optional

from gpuassay.probe import (
    amd,
    dcb,
    equipment,
    hosttrees,
    leftovers,
    localfiles,
    machine,
    nccl,
    nvme,
    packages,
    system,
    trees,
)
from gpuassay.probe.answer import Answer, document, kind_of, words_of
from gpuassay.probe.children import Child, Lost, send
from gpuassay.probe.exposure import exposure
from gpuassay.probe.files import attributes, whole
from gpuassay.probe.items import Question
from gpuassay.probe.kmsg import kmsg

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

TREES = {
    "dmi": trees.dmi,
    "pci": trees.pci,
    "infiniband": trees.infiniband,
    "net": trees.net,
    "processors": machine.processors,
    "numa": machine.numa,
    "nvme": machine.nvme,
    "gpudirect": trees.modules,
    "boot": packages.boot,
    "amdgpu": amd.amdgpu,
    "kfd": amd.kfd,
    "kfd-users": amd.users,
    "cpu": hosttrees.cpu,
    "edac": hosttrees.edac,
    "iommu": hosttrees.iommu,
    "acs": hosttrees.acs,
}
LIBRARIES = {
    "host": system.host,
    "cpuinfo": system.cpuinfo,
    "clock": system.clock,
    "virtualization": system.virtualization,
    "nvme-health": nvme.health,
    "dcb": dcb.dcb,
    "exposure": exposure,
    "nccl": nccl.nccl,
    "cmdline": localfiles.cmdline,
    "mounts": localfiles.mounts,
    "own-name": localfiles.own_name,
    "shm": leftovers.shm,
    "equipment": equipment.equipment,
}


class Reader:
    """Asks one question after the other; one that blocks loses only its own answer.

    One process serves all of them, not each its own: a node in trouble may have few to spare.
    """

    def __init__(self) -> None:
        self._child: Optional[Child] = None
        self._requests = os.pipe()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._child:
            self._child.end()
        for end in self._requests:
            os.close(end)

    def ask(self, question: Question) -> dict[str, Any]:
        """Answer in the form of a recording's line. Raises Stop, and OSError if no process can be started."""
        child = self._child = self._child or Child(self._serve)
        os.write(self._requests[1], json.dumps(question).encode() + b"\n")
        answer = child.next(question.deadline_s)
        if not isinstance(answer, Lost):
            return dict(answer)
        self._child = None
        child.end()
        why = f"{answer.why}; {child.ending}" if child.left_behind else answer.why
        return Answer(status=answer.kind, why=why).parts()

    def _serve(self, news: int) -> None:
        """Answer in the child, until there are no more questions."""
        requests, asking = self._requests
        os.close(asking)
        with os.fdopen(requests, closefd=False) as lines:
            for line in lines:
                send(news, read(Question(*json.loads(line))).parts())


def read(question: Question) -> Answer:
    """Read what one question asks for, whatever goes wrong."""
    try:
        answer = _raw(question)
    except OSError as error:
        return Answer(status=kind_of(error), why=words_of(error))
    except Exception as error:  # noqa: BLE001 - one reader's mistake costs one item, and is said
        return Answer(status="failed", why=f"{type(error).__name__}: {error}")
    if len(answer.out) > question.cap:
        return Answer(status="failed", why=f"larger than {question.cap} bytes")
    return answer


def _raw(question: Question) -> Answer:
    place = question.what[0]
    if question.id == "packages":
        return Answer(out=document(packages.installed(place)))
    if question.how == "file":
        return whole(place, question.cap)
    if question.how == "files":
        found = attributes("", (path.lstrip("/") for path in question.what))
        return Answer(out=document({f"/{path}": content for path, content in found.items()}))
    if question.how == "tree":
        return Answer(out=document(TREES[question.id](place)))
    if question.id == "kmsg":
        return kmsg(question.cap)
    return Answer(out=document(LIBRARIES[question.id]()))
