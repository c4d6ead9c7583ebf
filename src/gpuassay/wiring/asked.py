"""From pytest's options to what the user asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay.evidence.files import RecordingError
from gpuassay.fault.consent import Consent
from gpuassay.judge.config import ConfigError
from gpuassay.options import until
from gpuassay.session import Request
from gpuassay.signing.envelope import SigningError
from gpuassay.sla.template import load
from gpuassay.suite import SuiteError
from gpuassay.target import TargetError

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

MISTAKES = (ConfigError, SuiteError, RecordingError, TargetError, SigningError)
"""What the user can mend; each says where it is and what to do."""


def request_of(config: pytest.Config, root: Path) -> Request:
    """Take what the user asked for from the options."""
    folder = config.invocation_params.dir
    option = config.option

    def path(text: str | None) -> Path | None:
        return folder / text if text else None

    return Request(
        root=root,
        target=option.target,
        site=path(option.site),
        thresholds=path(option.thresholds),
        profile=option.profile,
        run_dir=path(option.run_dir),
        nodes=option.nodes,
        deadline_s=option.deadline,
        host_view=option.host_view,
        allow=option.allow,
        until=until(option.budget),
        earlier=path(option.earlier),
        plan=path(option.plan),
        burn_in_s=option.burn_in,
        endurance_s=option.endurance,
        reboot_wave=option.reboot_wave,
        resume=path(option.resume),
        consent=Consent(option.break_nodes, option.ticket, *option.window),
        folder=folder,
        sla=load(option.sla, folder) if option.sla else None,
    )
