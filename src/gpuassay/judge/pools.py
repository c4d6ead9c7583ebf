"""Pools: the nodes that were bought, and what the contract says of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuassay.judge.config import COUNT, SCALAR, TEXT, items, word
from gpuassay.judge.names import NODES, PORTS, first_of, natural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.judge.catalog import Catalog
    from gpuassay.judge.config import Table
    from gpuassay.judge.fact import Scalar

_COUNTS = ("gpus", "contracted", "spares")
_NAMED = ("ports", "accelerator")
_OF_EACH_NODE = {"gpu": "gpus", "port": "ports"}  # what the contract calls the subjects of a domain


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes that were bought as alike.

    ``gpus`` and ``ports`` (of the compute fabric, by name) are those of each node, ``contracted`` and
    ``spares`` count nodes; None, or no port, is undeclared. ``contract`` has all that ``contract.NAME``
    may name: these counts, the accelerator, and what else the limits of the catalogue ask for.
    """

    name: str
    nodes: frozenset[str]
    has: tuple[str, ...] = ()
    accelerator: str | None = None
    gpus: int | None = None
    contracted: int | None = None
    spares: int | None = None
    ports: tuple[str, ...] = ()
    contract: Mapping[str, Scalar] = field(default_factory=dict)

    def contracted_value(self, name: str) -> Scalar | None:
        """Look up ``contract.NAME``; None where it was not declared."""
        return self.contract.get(name)

    def declared_count(self, domain: str) -> int | None:
        """Tell how many subjects of a domain each node was declared to have, if it was."""
        value = self.contract.get(_OF_EACH_NODE.get(domain, ""))
        return value if isinstance(value, int) else None


def contract_names(catalog: Catalog) -> frozenset[str]:
    """Name what ``contract.NAME`` may be: the counts of every pool, its product, and what limits ask for."""
    return catalog.contract_keys.union(_COUNTS, _NAMED)


def read_pools(site: Table, catalog: Catalog) -> tuple[Pool, ...]:
    """Read every ``[[pool]]``; no node may be in two, and no two may share a name."""
    tables = site.array("pool")
    if not tables:
        site.wrong("pool", "is missing; expected at least one [[pool]] with the nodes that were bought")
    pools: dict[str, Pool] = {}
    for table in tables:
        pool = _read_pool(table, catalog)
        if pool.name in pools:
            table.wrong("name", f"expected a name of its own, found {pool.name} again")
        for other in pools.values():
            if shared := sorted(pool.nodes & other.nodes, key=natural):
                table.wrong(
                    "nodes", f"expected nodes of no other pool; {other.name} has {first_of(shared)} too"
                )
        pools[pool.name] = pool
    return tuple(pools.values())


def _read_pool(table: Table, catalog: Catalog) -> Pool:
    counts = {name: table.take(name, COUNT, None) for name in _COUNTS}
    ports = table.take("ports", PORTS, ())
    accelerator = table.take("accelerator", word(catalog.accelerators), None)
    others = sorted(contract_names(catalog).difference(_COUNTS, _NAMED))
    contract = {
        **counts,
        "ports": len(ports) or None,
        "accelerator": accelerator,
        **{name: table.take(name, SCALAR, None) for name in others},
    }
    nodes = table.need("nodes", NODES)
    pool = Pool(
        name=table.take("name", TEXT, str(table.data.get("nodes"))),
        nodes=frozenset(nodes),
        has=table.take("has", items(word(catalog.needs)), ()),
        accelerator=accelerator,
        **counts,
        ports=ports,
        contract={name: value for name, value in contract.items() if value is not None},
    )
    if table.data.get("contracted") == 0:  # then no fault would ever be one too many
        table.wrong("contracted", "expected a whole number, 1 or more; found 0")
    if (pool.accelerator or pool.gpus) and "gpu" in catalog.needs and "gpu" not in pool.has:
        table.wrong("has", 'expected "gpu" too, for this pool declares accelerators')
    if {"nvme_drives", "nvme_tb"} & pool.contract.keys() and "nvme" not in pool.has:
        table.wrong("has", 'expected "nvme" too, for this pool declares local drives')
    table.close()
    return pool
