"""Small tables for tests of the judge: one of everything, each easy to break."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay.judge.catalog import Catalog, load_catalog

if TYPE_CHECKING:
    from pathlib import Path

    from gpuassay.judge.config import ConfigError

THRESHOLDS = """
[tiers]
ribbon = { warnings = 4, phases = ["audit"] }
bronze = { warnings = 3, phases = ["audit", "perf"] }
silver = { warnings = 3, phases = ["audit", "perf"] }
gold = { warnings = 1, phases = ["audit", "perf", "reliability"] }
platinum = { warnings = 0, phases = ["audit", "perf", "reliability"] }

[needs]
gpu = "the node has accelerators"
roce = "the node has RDMA ports on Ethernet"

[profile.rating]
requires = ["gpu"]

[accelerator.b200]
match = ["NVIDIA B200", "10de:2901"]
lacks = []
source = "data sheet"
nvlinks = 18
tflops = { is = 1439, source = "somebody's measurement", provisional = true }

[accelerator.gh200]
match = ["NVIDIA GH200 480GB"]
lacks = ["audit.health.row_remaps.failed", "perf.gemm.bf16"]
source = "data sheet"

[audit.health.row_remaps]
category = "reliability"
tier = "bronze"
over = "gpu"
needs = ["gpu"]
seat = "tenant"
fault = "component"
source = "NVIDIA, GPU memory error management"
pending = { is = false }
failed = { is = false }
banks_exhausted = { warn_above = 0, unit = "banks" }

[audit.hardware.gpu_count]
category = "compute"
tier = "ribbon"
over = "node"
source = "the contract"
on_bus = { is_of = "contract.gpus" }
racks = { is_of = "contract.racks" }

[audit.versions.driver]
category = "security"
tier = "silver"
over = "node"
source = "bulletins"
version = { at_least = "570", not_affected_by = ["nvidia-1"], as = "dotted" }

[perf.gemm.bf16]
category = "compute"
tier = "bronze"
over = "gpu"
needs = ["gpu"]
source = "measured"
tflops = { fail_below = 0.9, platinum_below = 0.98, of = "accelerator.tflops", unit = "TFLOP/s" }
"""

ADVISORIES = """
[advisory.nvidia-1]
product = "NVIDIA driver"
scheme = "dotted"
affected = [{ before = "570.211.01" }, { from = "580", before = "580.159.03" }]
source = "bulletin 1"
date = 2026-05-21
"""


def catalog(folder: Path, thresholds: str = THRESHOLDS, advisories: str = ADVISORIES) -> Catalog:
    """Write tables into a folder and read them."""
    (folder / "thresholds.toml").write_text(thresholds, encoding="utf-8")
    (folder / "advisories.toml").write_text(advisories, encoding="utf-8")
    return load_catalog(folder / "thresholds.toml", folder / "advisories.toml")


def changed(text: str, old: str, new: str) -> str:
    """Change a text at the one place where ``old`` stands."""
    assert text.count(old) == 1, old
    return text.replace(old, new)


def told(error: ConfigError, expected: str) -> bool:
    """Tell whether one line begins with the words before ``*`` and has those after it."""
    head, *rest = expected.split("*")
    return any(
        line.startswith(head) and all(word in line for word in rest) for line in str(error).splitlines()
    )
