"""From a description to the recording that a run would have left: the same bytes each time and everywhere."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections import defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gpuassay import evidence
from gpuassay.burning import AFTER
from gpuassay.evidence.item import Item
from gpuassay.evidence.meta import Meta
from gpuassay.evidence.writer import RecordingWriter, add_measurement
from gpuassay.judge.names import expand
from gpuassay.rebooted import REBOOT
from recorded import (
    agents,
    burnt,
    churn,
    containers,
    cpu_vm,
    faults,
    gb300,
    gb300_planes,
    hgx_b200,
    hgx_h200,
    kube_faults,
    kube_reboots,
    kubernetes,
    lasting,
    mi300x_cpx,
    mi355x,
    northsouth,
    object_hours,
    object_speeds,
    objects,
    performance,
    real_faults,
    reboots,
    slurm,
    storing,
    synthetic_faults,
    two_racks,
    vm_h200,
)
from recorded.description import EARLIER, FIXTURES, DescriptionError, describe, healthy
from recorded.overlay import OverlayError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recorded.description import Description

SPARE = 99
"""The number of a machine that serves in place of a node, which makes its serial numbers."""

MODELS: dict[str, Callable[[str, int], list[Item]]] = {
    "cpu_vm": cpu_vm.node,
    "gb300_rack": lambda name, index: [
        *gb300.one_rack(name, index),
        slurm.equipment(),
        northsouth.ssh_ways(name, index, 18),
    ],
    "gb300_half_racks": gb300.half_racks,
    "gb300_planes": gb300_planes.node,
    "gb300_half_racks_measured": two_racks.half_racks,
    "hgx_b200": lambda name, index: [*hgx_b200.node(name, index), containers.by_runtime(8)],
    "hgx_b200_monitored": hgx_b200.node,
    "hgx_b200_kubernetes": lambda name, index: [
        *(answers := hgx_b200.node(name, index)),
        *kube_reboots.on_node(name, answers),
    ],
    "hgx_b200_slurm": lambda name, index: [
        *(answers := hgx_b200.node(name, index)),
        slurm.equipment(),
        northsouth.ssh_ways(name, index, 4),
        *northsouth.outside(),
        *reboots.on_node(name, index, answers),
    ],
    "hgx_b200_measured": performance.b200,
    "hgx_h200_measured": performance.h200,
    "mi355x_measured": performance.mi355x,
    "gb300_measured": lambda name, index: [
        *performance.gb300_rack(name, index),
        slurm.equipment(),
        northsouth.ssh_ways(name, index, 18),
    ],
    "hgx_h200": hgx_h200.node,
    "mi300x_cpx": mi300x_cpx.node,
    "mi355x": mi355x.node,
    "vm_h200": vm_h200.node,
}
# What the services of such a cluster answer; ids are survey/NAME/ITEM.
SERVICES: dict[str, Callable[[Sequence[str]], list[Item]]] = {
    "gb300_rack": lambda names: [
        *objects.services(names),
        *slurm.trial(names, 4),
        *containers.on_slurm(names, 4),
    ],
    "gb300_measured": lambda names: [
        *objects.services(names),
        *object_speeds.services(names),
        *slurm.trial(names, 4),
        *containers.on_slurm(names, 4),
    ],
    "hgx_b200": objects.services,
    "hgx_b200_measured": lambda names: [
        *agents.services(names),
        *object_speeds.services(names),
        *object_hours.services(names),
    ],
    "mi355x_measured": lambda names: [*object_speeds.services(names), *object_hours.services(names)],
    "hgx_b200_kubernetes": lambda names: [
        *kubernetes.services(names),
        *kube_faults.on_kubernetes(names, hgx_b200.node(names[0], SPARE)),
        *churn.on_kubernetes(names),
    ],
    "hgx_b200_slurm": lambda names: [
        *objects.services(names),
        *slurm.trial(names, 8),
        *containers.on_slurm(names, 8),
        *faults.on_slurm(names, hgx_b200.node(names[0], SPARE)),
        *churn.on_slurm(),
        *synthetic_faults.on_slurm(names[0]),
        *real_faults.on_slurm(names[0]),
    ],
    "hgx_b200_monitored": lambda names: [
        *hgx_b200.services(names),
        *objects.services(names),
        *northsouth.second_account(names),
    ],
    "mi355x": lambda names: [*objects.services(names), *real_faults.on_amd(names[0])],
}
# What the scheduler of such a cluster says of it as a whole; ids are slurm/ITEM and so on.
SCHEDULERS: dict[str, Callable[[Sequence[str]], list[Item]]] = {
    "gb300_rack": lambda names: slurm.cluster(names, "gpu:gb300:4", blocks=True),
    "gb300_measured": lambda names: slurm.cluster(names, "gpu:gb300:4", blocks=True),
    "hgx_b200_kubernetes": kubernetes.cluster,
    "hgx_b200_slurm": lambda names: slurm.cluster(names, "gpu:b200:8(S:0-1)"),
}
REBOOTED = frozenset({"hgx_b200_kubernetes", "hgx_b200_slurm"})
CACHE = Path(__file__).parents[2] / "build" / "recorded"
SITE = "site.toml"


def build(name: str) -> Path:
    """Return the folder of a recording: of a healthy cluster the committed one, else one from the cache."""
    return committed(name) if name in healthy() else cached(describe(name))


def committed(name: str) -> Path:
    """Return where the recording of a healthy cluster is kept."""
    return FIXTURES / name / "recording"


def commit(name: str) -> None:
    """Write the recording of a healthy cluster anew where it is kept."""
    shutil.rmtree(committed(name), ignore_errors=True)
    write(describe(name), committed(name))


def synthesize(nodes: int) -> Path:
    """Return the recording of a healthy cluster of that many nodes of eight GPUs, named gpu0001 and up."""
    base = describe("hgx-b200-4")
    names = f"gpu[{1:04d}-{nodes:04d}]"
    site = base.site.replace(base.nodes, names)
    return cached(replace(base, name=f"hgx-b200-{nodes}", nodes=names, site=site))


def cached(description: Description) -> Path:
    """Return the recording of a description; it is made unless the very same was made before.

    Made aside and then renamed, so that several processes may ask for the same one at once.
    """
    place = CACHE / f"{description.name}-{_key(description)}"
    if not place.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as aside:
            made = Path(aside) / "recording"
            write(description, made)
            try:
                made.rename(place)
            except OSError:
                if not place.is_dir():  # else another process was first
                    raise
    return place


def write(description: Description, folder: Path) -> None:
    """Write a recording into a new folder; raise DescriptionError if an overlay does not fit."""
    try:
        _write(description, folder)
    except OverlayError as error:
        raise DescriptionError(f"{description.file}: overlay: {error}") from None


def _write(description: Description, folder: Path) -> None:
    names = expand(description.nodes)
    strangers = {name for overlay in description.overlays for name in overlay.nodes or ()} - {*names}
    if strangers:
        raise OverlayError(f"no node {min(strangers)}")
    meta = Meta(
        target="synthetic",
        probe="synthetic",
        cluster=description.name.removesuffix(EARLIER),
        begin=description.begin,
        declared=names,
        synthetic=True,
    )
    site = _overlaid(description, SITE, description.site.encode())
    writer = RecordingWriter(folder, meta, None if site is None else site.decode())
    for index, name in enumerate(names, 1):
        for item in _node(description, name, index):
            place, _, measurement = item.id.partition("/")
            if place == "measure":
                of, _, own = measurement.partition("/")
                named = (
                    of.endswith(AFTER) or of == REBOOT
                )  # what was asked again, or is told, has its own names
                kept = own if named else measurement
                add_measurement(folder, of, name, replace(item, id=kept))
            else:
                writer.add(name, item)
    told = _told_of_cluster(description, names)
    for item in told:
        writer.add_cluster(item)
    counts: dict[str, int] = defaultdict(int)
    for item in _surveys(description, names, told):
        _, survey, item_id = item.id.split("/", 2)
        counts[survey] += 1
        add_measurement(folder, survey, "", replace(item, id=item_id, seq=counts[survey]))
    writer.finish(description.end)
    _damage(description, folder)


def _node(description: Description, name: str, index: int) -> list[Item]:
    """Return what a node answers after all overlays: nothing if it is silent."""
    items = [*_untouched(description.model, name, index)]
    for overlay in description.overlays:
        items = overlay.on_node(name, items)
    return items


@cache
def _untouched(model: str, name: str, index: int) -> tuple[Item, ...]:
    """Return what a node of a healthy cluster answers: hundreds of faulty ones are made of it."""
    return tuple(replace(item, seq=seq) for seq, item in enumerate(MODELS[model](name, index), 1))


def _told_of_cluster(description: Description, names: Sequence[str]) -> list[Item]:
    """Return what a scheduler, where there is one, says of the cluster after all overlays."""
    told = SCHEDULERS[description.model](names) if description.model in SCHEDULERS else []
    items = [replace(item, seq=seq) for seq, item in enumerate(told, 1)]
    for overlay in description.overlays:
        items = overlay.on_cluster(items)
    return items


def _surveys(description: Description, names: Sequence[str], told: Sequence[Item]) -> list[Item]:
    """Return what the services of the cluster answer after all overlays."""
    answers = SERVICES[description.model](names) if description.model in SERVICES else []
    answers += reboots.of_cluster(told) if description.model in REBOOTED else []
    items = [replace(item, seq=seq) for seq, item in enumerate(answers, 1)]
    for overlay in description.overlays:
        items = overlay.on_surveys(items)
    return items


def _damage(description: Description, folder: Path) -> None:
    """Change files of the finished recording, as a bad disk or a hand would, after the seal was set."""
    for name in {overlay.file for overlay in description.overlays if overlay.file} - {SITE}:
        changed = _overlaid(description, name, (folder / name).read_bytes())
        if changed is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(changed)


def _overlaid(description: Description, name: str, content: bytes) -> bytes | None:
    """Return a file of the recording after all overlays; None if it is gone."""
    file: Item | None = Item(name, 0, out=content)
    for overlay in description.overlays:
        if overlay.file == name and file is not None:
            file = overlay.on_file(file)
    return None if file is None else file.out


def _key(description: Description) -> str:
    """Return a hash of all that a recording is made from: the sources of its making, and its description."""
    digest = hashlib.sha256()
    makers = [*Path(__file__).parent.glob("*.py"), *Path(*evidence.__path__).glob("*.py")]
    for source in (*sorted(makers), description.file):
        digest.update(source.read_bytes())
    about = (
        performance.made_from(),
        burnt.measurement(),
        reboots.measurement(),
        storing.made_from(),
        lasting.measurements(),
        object_speeds.made_from(),
        object_hours.made_from(),
        description.name,
        description.model,
        description.nodes,
        description.begin,
        description.end,
    )
    digest.update(repr((*about, description.site)).encode())
    return digest.hexdigest()[:12]
