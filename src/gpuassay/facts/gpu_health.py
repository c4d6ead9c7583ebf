"""The health of a GPU as its driver tells it: memory errors, repairs, and what it asks for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gpuassay.facts.gpu_told import Told
from gpuassay.facts.record import mapped
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact

# nvml.h, nvmlDeviceGpuRecoveryAction_t
_ACTIONS: Final = (
    "nothing",
    "GPU reset",
    "node reboot",
    "drain of peer-to-peer work",
    "drain and GPU reset",
    "recovery of the IMEX domain",
    "bus reset",
    "system reboot",
)
_NO_ACTION = _ACTIONS[0]

# nvmlErrorString of 16 and 15, of a GPU that answers nothing else.
_REFUSALS: Final = {"GPU requires reset": _ACTIONS[1], "GPU is lost": _ACTIONS[2]}
_CORRUPTED = "(14)"  # NVML_ERROR_CORRUPTED_INFOROM, as the probe writes it


class Health(Told):
    """What the driver says of one GPU's memory and board; ``gone`` is why it can no longer use it, if so."""

    def __init__(self, entry: Record, gone: str = "") -> None:
        """Read from the driver's entry of a GPU."""
        super().__init__(entry)
        self._gone = gone

    # --- memory ----------------------------------------------------------------------------------

    @property
    def uncorrected_errors(self) -> Fact[int]:
        """How many memory errors ECC could not correct since the driver was loaded or the GPU was reset."""
        return self._counted("volatile_uncorrected")

    @property
    def corrected_errors(self) -> Fact[int]:
        """How many memory errors ECC corrected since the driver was loaded or the GPU was reset."""
        return self._counted("volatile_corrected")

    @property
    def lifetime_uncorrected_errors(self) -> Fact[int]:
        """How many memory errors ECC could not correct in the GPU's life; the note says what came of them."""
        fact = self._counted("aggregate_uncorrected")
        return fact if isinstance(fact, Unread) or not fact.value else replace(fact, note=self._repairs())

    @property
    def sram_threshold_exceeded(self) -> Fact[bool]:
        """Whether the on-chip memory has had more errors than the vendor allows."""
        return self._seen(self._entry.record("ecc_errors").flag("sram_threshold_exceeded"))

    def _counted(self, key: str) -> Fact[int]:
        fact = self._seen(self._entry.record("ecc_errors").count(key))
        ecc = self._entry.record("ecc").flag("current")
        if isinstance(fact, Unread) and isinstance(ecc, Read) and not ecc.value:
            return Unread("denied", "ECC is off, so nothing counts memory errors", fact.evidence)
        return fact

    def _repairs(self) -> str:
        rows = self._entry.record("remapped_rows")
        count, pending, failed = rows.count("uncorrectable"), rows.flag("pending"), rows.flag("failed")
        told = [f"{count.value} rows remapped after uncorrectable errors"] if isinstance(count, Read) else []
        told += ["a remap pending" if pending.value else "none pending"] if isinstance(pending, Read) else []
        told += ["a remap failed" if failed.value else "no failure"] if isinstance(failed, Read) else []
        return ", ".join(told)

    @property
    def pcie_replays(self) -> Fact[int]:
        """How many packets it had to send again over PCIe since it was reset."""
        return self._seen(self._entry.record("fields").count("pcie_replays"))

    # --- what it asks for ------------------------------------------------------------------------

    @property
    def asks_for(self) -> Fact[str]:
        """What the GPU needs before it can be relied on: ``nothing``, a reset, a reboot, to be replaced."""
        for word, needed in _REFUSALS.items():
            if word in self._gone:
                return Read(needed, self._entry.evidence, self._gone)
        lacks = self._entry.flag("unrepairable_memory")
        if isinstance(lacks, Read) and lacks.value:
            return Read("replacement", lacks.evidence, "it says that its memory cannot be repaired")
        action = self._action()
        if isinstance(action, Read) and action.value != _NO_ACTION:
            return action
        for pending, what in self._pending():
            if isinstance(pending, Read) and pending.value:
                return Read("GPU reset", pending.evidence, f"{what} is pending: it takes effect at a reset")
        return action

    def _action(self) -> Fact[str]:
        """Read the recovery action, or what drivers before R570 say in its place."""
        action = self._entry.record("fields").look("recovery_action")
        if isinstance(action, Read):
            if isinstance(action.value, str):  # in the words of nvidia-smi
                return self._entry.record("fields").text("recovery_action", r".{1,64}", "a recovery action")
            return mapped(self._entry.record("fields").count("recovery_action", most=255), _action_name)
        if action.kind == "not_asked":
            return action
        reset, drain = (
            self._entry.record("fields").look(key) for key in ("reset_required", "drain_and_reset")
        )
        for fact, name in ((reset, _ACTIONS[1]), (drain, _ACTIONS[4])):
            if isinstance(fact, Read) and fact.value in (1, True):
                return Read(name, fact.evidence)
        if isinstance(reset, Read) and reset.value in (0, False):
            return Read(_NO_ACTION, reset.evidence)
        return self._seen(Unread("not_found", action.why, action.evidence) if _is_age(action) else action)

    def _pending(self) -> tuple[tuple[Fact[bool], str], ...]:
        repairs = self._entry.record("repairs_pending")
        return (
            (self._entry.flag("retired_pages_pending"), "the retirement of a page of memory"),
            (repairs.flag("channel"), "the repair of a memory channel"),
            (repairs.flag("tpc"), "the repair of a group of processors (TPC)"),
        )

    @property
    def inforom_valid(self) -> Fact[bool]:
        """Whether the checksums of the board's own memory, the InfoROM, are right."""
        fact = self._entry.flag("inforom_valid")
        if isinstance(fact, Unread) and fact.kind == "failed" and _CORRUPTED in fact.why:
            return Read(value=False, evidence=fact.evidence, note=fact.why)
        return self._seen(fact)


def _action_name(number: int) -> str:
    return _ACTIONS[number] if number < len(_ACTIONS) else f"recovery action {number}"


def _is_age(fact: Unread) -> bool:
    """Tell whether a field may be missing because of the driver's age: some say unknown, some unsupported."""
    return fact.kind in ("not_found", "unsupported")
