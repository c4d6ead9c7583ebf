"""The heat map: alike nodes share a column, nothing is lost, and it stays a picture at a thousand nodes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuassay.report.heatmap import MOST_COLUMNS, heat_map
from gpuassay.report.places import nodes
from report_sample import ORDER, check, results, row


def test_alike_nodes_share_a_column_and_the_worst_comes_first() -> None:
    """Two of four nodes come out the same: three columns, the failed node first."""
    columns = heat_map(results()).columns
    assert [(column.nodes, column.count) for column in columns] == [
        ("gpu003", 1),
        ("gpu004", 1),
        ("gpu[001-002]", 2),
    ]


def test_a_healthy_cluster_is_one_column() -> None:
    """A thousand nodes without a difference need one column."""
    document = results({"audit.health.ecc": check(row("gpu[0001-1000]/gpu[0-7]", count=8000))})
    assert [(column.nodes, column.cells) for column in heat_map(document).columns] == [
        ("gpu[0001-1000]", ("pass",))
    ]


def test_a_check_without_places_has_empty_cells_and_its_own_verdict() -> None:
    """What was not run on any node colours no cell; the line still carries its check."""
    lines = {line.id: line for _, block in heat_map(results()).blocks for line in block}
    assert set(lines["perf.gemm.bf16"].cells) == {""}
    assert lines["perf.gemm.bf16"].check["verdict"] == "not_run"


def test_provisional_rows_colour_nothing() -> None:
    """A provisional limit is outside the arithmetic: it must not make a node look failed."""
    rows = (row("gpu1"), row("gpu1", "fail", provisional=True))
    document = results({"audit.health.x": check(*rows, verdict="pass")})
    assert [column.cells for column in heat_map(document).columns] == [("pass",)]


def test_what_belongs_to_the_cluster_is_no_column() -> None:
    """A volume or the cluster is no node."""
    document = results({"audit.storage.rwx": check(row("/home", "fail"), over="volume")})
    assert heat_map(document).columns == []


def test_only_what_is_not_in_order_is_drawn() -> None:
    """What passed everywhere, does not apply or was not run shows no difference between nodes."""
    drawn = [line.id for _, lines in heat_map(results()).troubled for line in lines]
    assert sorted(drawn) == [
        "audit.health.row_remaps",
        "audit.health.xid",
        "audit.host.memlock",
        "audit.network.gid",
    ]


def test_columns_are_bounded_and_the_largest_group_stays_apart() -> None:
    """Hundreds of differing nodes join in one column; the healthy bulk is not painted by them."""
    checks = {
        f"audit.a.c{bit}": check(
            row(",".join(f"gpu{n}" for n in range(256) if n >> bit & 1), "warn"),
            row(",".join(f"gpu{n}" for n in range(1000) if n > 255 or not n >> bit & 1)),
        )
        for bit in range(8)
    }
    columns = heat_map(results(checks)).columns
    assert len(columns) == MOST_COLUMNS
    assert [column.mixed for column in columns[-2:]] == [True, False]
    assert columns[-1].cells == ("pass",) * 8
    assert sum(column.count for column in columns) == 1000


@given(st.dictionaries(st.sampled_from([f"gpu{n}" for n in range(60)]), st.sampled_from(ORDER), min_size=1))
def test_every_node_is_in_one_column_with_its_verdict(verdicts: dict[str, str]) -> None:
    """Columns neither lose a node nor change what was found on it; what does not apply is left out."""
    document = results({"audit.a.b": check(*(row(node, verdict) for node, verdict in verdicts.items()))})
    found = {node: column.cells[0] for column in heat_map(document).columns for node in nodes(column.nodes)}
    assert found == ({} if set(verdicts.values()) == {"skip"} else verdicts)
