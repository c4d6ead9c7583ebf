"""Quotas in the words of the tools that tell them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.facts.quota import limit_bytes
from gpuassay.facts.record import Record
from gpuassay.judge.fact import Read, Unread

HEAD = "Disk quotas for user alice (uid 1000): \n  Filesystem  blocks  quota  limit  grace\n"
GIB = 1 << 30


def told(tool: str, out: str) -> Record:
    """Give what the probe recorded."""
    return Record({"tool": tool, "exit": 0, "out": out, "err": ""}, "nodes/gpu001#9", missing="not_found")


@pytest.mark.parametrize(
    ("tool", "out", "limit"),
    [
        ("quota", f"{HEAD}nfs1:/export/home 52 1048576 2097152 0 3 0 0 0\n", 2 * GIB),
        ("quota", f"{HEAD}nfs1:/export/home 2097153* 1048576 0 6days 3 0 0 0\n", GIB),
        ("quota", "Disk quotas for user alice (uid 1000): none\n", None),
        ("lfs", "/lustre  52  0  3145728  -  7  0  0  -\n", 3 * GIB),
        ("lfs", "/lustre/a/long/name\n  [52]*  0  3145728  -  7  0  0  -\n", 3 * GIB),
        ("lfs", "/lustre  52  0  0  -  7  0  0  -\n", None),
        ("beegfs-ctl", "name,id,size,hard,files,hard\nalice,1000,52,4GiB,3,unlimited\n", 4 * GIB),
        ("beegfs-ctl", "name,id,size,hard,files,hard\nalice,1000,52,unlimited,3,unlimited\n", None),
    ],
)
def test_a_limit_is_read(tool: str, out: str, limit: int | None) -> None:
    """The hard limit counts, else the soft one; no limit is none."""
    fact = limit_bytes(told(tool, out))
    assert isinstance(fact, Read)
    assert fact.value == limit


@pytest.mark.parametrize("tool", ["quota", "lfs", "beegfs-ctl"])
@given(out=st.text(max_size=200))
def test_noise_is_no_limit(tool: str, out: str) -> None:
    """Whatever a tool prints, it is read or it is said that it cannot be."""
    assert isinstance(limit_bytes(told(tool, out)), Read | Unread)
