"""What only nodes run on which others depend: their loss is nobody's test."""

from __future__ import annotations

from pathlib import Path

from gpuassay.fault.node.words import Refused

_VITAL = {
    *("slurmctld", "slurmdbd", "mariadbd", "mysqld"),
    *("etcd", "kube-apiserver", "kube-controller", "kube-scheduler"),
    *(
        "nfsd",
        "ceph-mon",
        "ceph-osd",
        "beegfs-mgmtd",
        "beegfs-storage",
        "beegfs-meta",
        "ll_ost00_000",
        "ll_mgs_0000",
    ),
}


def refuse_vital() -> None:
    """Go on only where nothing of the kind runs. Raises Refused."""
    vital = sorted({name for name in _running() if name in _VITAL})
    if vital:
        raise Refused(f"other nodes depend on this one: it runs {', '.join(vital)}")


def _running() -> list[str]:
    names = []
    for place in Path("/proc").glob("[0-9]*/comm"):
        try:
            names.append(place.read_text(encoding="utf-8").strip())
        except OSError:
            continue
    return names
