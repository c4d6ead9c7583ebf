"""How data went is read from the log of the collective library, kept in memory, and from no setting."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.measure.netlog import ways
from gpuassay.measure.work import netlog, nics

WHO = "gpu001:4711:4801 [3] NCCL INFO "
ROCE = [
    f"{WHO}NCCL version 2.29.3+cuda13.0",
    f"{WHO}NET/Plugin: Loaded net plugin IBext_v10",
    f"{WHO}NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:192.0.2.7<0>",
    f"{WHO}Using network IBext_v10",
    f"{WHO}NVLS multicast support is available on dev 3",
    f"{WHO}Channel 00/0 : 3[3] -> 11[3] [send] via NET/IBext_v10/3/GDRDMA",
    f"{WHO}Channel 01/0 : 11[3] -> 3[3] [receive] via NET/IBext_v10/3/GDRDMA",
    f"{WHO}Channel 00/0 : 3[3] -> 4[4] via P2P/CUMEM/read",
    f"{WHO}Channel 00/0 : 3[3] -> 2[2] via SHM/direct/direct",
]
SOCKETS = [f"{WHO}Using network Socket", f"{WHO}Channel 00/0 : 3[3] -> 11[3] [send] via NET/Socket/0"]


def test_rdma_straight_to_the_gpu_is_proven_by_its_channels() -> None:
    """Network, plugin, version, NVLS and the ways within the node are told too."""
    found = ways(ROCE)

    assert (found.sockets, found.direct, found.nvls, found.racks) == (False, True, True, False)
    assert found.ways == {"NET/IBext_v10", "P2P/CUMEM", "SHM"}
    assert (found.networks, found.plugins, found.version) == (
        ("IBext_v10",),
        ("IBext_v10",),
        "2.29.3+cuda13.0",
    )


def test_sockets_are_found_whatever_was_announced() -> None:
    """That RDMA devices were listed does not mean that they were used."""
    found = ways([ROCE[2], *SOCKETS])
    assert found.sockets is True
    assert found.direct is False
    assert ways(SOCKETS[:1]).sockets is True


def test_one_channel_without_the_gpus_memory_is_enough() -> None:
    """The slowest one sets the pace."""
    assert ways([*ROCE, f"{WHO}Channel 02/0 : 3[3] -> 11[3] [send] via NET/IBext_v10/3"]).direct is False


def test_a_log_that_does_not_say_is_no_proof() -> None:
    """Neither for nor against."""
    found = ways([f"{WHO}NCCL version 2.29.3+cuda13.0", f"{WHO}Channel 00/0 : 0[0] -> 1[1] via P2P/IPC"])
    assert (found.sockets, found.direct) == (None, None)


def test_nvlink_between_nodes_shows() -> None:
    """By its own line, or by the way of a channel."""
    assert ways([f"{WHO}MNNVL 1 cliqueId 7ffe cliqueSize 72 cliqueRank 3"]).racks
    assert ways([f"{WHO}Channel 00/0 : 3[3] -> 4[0] via P2P/MNNVL"]).racks
    assert not ways([f"{WHO}MNNVL 0 cliqueId 0 cliqueSize 0"]).racks


@given(st.lists(st.text(max_size=60), max_size=8))
def test_any_lines_are_read(lines: list[str]) -> None:
    """A library prints what it likes."""
    assert isinstance(ways(lines).words, str)


def test_a_digest_keeps_each_kind_of_line_once() -> None:
    """Eight ranks on sixteen channels say one thing a thousand times."""
    many = [
        f"n1:1:{t} [0] NCCL INFO Channel {t:02}/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA"
        for t in range(64)
    ]
    found = netlog.digest("\n".join([*many, "n1:1:9 [0] NCCL INFO comm 0x1 something else", ROCE[0]]))

    assert [count for _, count in found["lines"]] == [64, 1]
    assert ways(line for line, _ in found["lines"]).ways == {"NET/IB"}
    assert found["tail"][-1] == ROCE[0]
    assert found["left_out"] == 0


def test_first_contact_has_none_of_the_librarys_settings() -> None:
    """And what was taken away is told."""
    environment = {"NCCL_IB_GID_INDEX": "3", "NCCL_DEBUG": "WARN", "PATH": "/bin"}
    told = netlog.arrange(environment, "bare")

    assert environment == {"PATH": "/bin"}
    assert told["removed"] == {"NCCL_IB_GID_INDEX": "3", "NCCL_DEBUG": "WARN"}


@pytest.mark.parametrize(("kind", "added"), [("site", {}), ("apart", netlog.APART)])
def test_the_sites_settings_stay_beside_what_switches_nvlink_off(kind: str, added: dict[str, str]) -> None:
    """All but those that ask for a log, which are ours."""
    environment = {"NCCL_IB_GID_INDEX": "3", "NCCL_DEBUG_FILE": "/tmp/log"}  # noqa: S108 - only named
    told = netlog.arrange(environment, kind)

    assert environment == {"NCCL_IB_GID_INDEX": "3", **added}
    assert told["kept"] == {"NCCL_IB_GID_INDEX": "3"}
    assert told["set"] == added


def test_the_log_is_written_to_memory() -> None:
    """Through a path that a library can open, and that no disk has."""
    environment: dict[str, str] = {}
    log = netlog.NetLog(environment)
    with Path(environment["NCCL_DEBUG_FILE"]).open("w", encoding="utf-8") as file:
        file.write(ROCE[5] + "\n")

    assert log.document()["lines"] == [[ROCE[5], 1]]
    assert environment["NCCL_DEBUG_FILE"].startswith("/proc/self/fd/")
    os.close(int(environment["NCCL_DEBUG_FILE"].rpartition("/")[2]))


def test_counters_of_ports_are_bytes(tmp_path: Path) -> None:
    """InfiniBand's and RoCE's count four bytes at a time, EFA's one; a port without either is not there."""
    for place, text in (
        ("mlx5_0/ports/1/counters/port_xmit_data", "1000\n"),
        ("rdmap0/ports/1/hw_counters/tx_bytes", "1000\n"),
        ("odd/ports/1/counters/port_xmit_data", "N/A\n"),
    ):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_text(text, encoding="ascii")

    assert nics.sent(tmp_path) == {"mlx5_0/1": 4000, "rdmap0/1": 1000}
