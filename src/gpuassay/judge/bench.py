"""The bench of a run: the tables, the site, the nodes and the profile by which every check is judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.judge.fact import Unread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuassay.judge.catalog import Accelerator, Catalog
    from gpuassay.judge.fact import NodeSight
    from gpuassay.judge.needs import Needs
    from gpuassay.judge.site import Site


@dataclass(frozen=True)
class Bench:
    """What all checks of a run are judged by: the tables, the site, the nodes in service, the profile."""

    catalog: Catalog
    site: Site
    nodes: Sequence[NodeSight]
    needs: Needs
    profile: str = "acceptance"
    _accelerators: dict[tuple[str, ...], Accelerator | Unread] = field(default_factory=dict)

    @cached_property
    def required(self) -> tuple[str, ...]:
        """What the profile demands of every cluster, whatever its site file says."""
        profile = self.catalog.profiles.get(self.profile)
        return profile.requires if profile else ()

    def accelerator(self, models: tuple[str, ...]) -> Accelerator | Unread:
        """Find the product table of a subject; an unknown or contradictory product is Unread."""
        if models not in self._accelerators:
            try:
                found = self.catalog.accelerator_of(models)
            except LookupError as error:
                self._accelerators[models] = Unread("garbled", str(error))
            else:
                name = " / ".join(models) or "of which neither a name nor a PCI id was read"
                self._accelerators[models] = found or Unread(
                    "garbled", f"unknown product {name}: no [accelerator] table matches"
                )
        return self._accelerators[models]

    def like(self, node: str, models: tuple[str, ...]) -> tuple[str, ...]:
        """Key of what a subject is compared with: its pool was bought as alike; else its product is."""
        pool = self.site.pool_of(node)
        if pool is not None:
            return ("pool", pool.name)
        product = self.accelerator(models)
        return tuple(sorted(models)) if isinstance(product, Unread) else ("product", product.name)
