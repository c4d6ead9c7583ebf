"""Each fault that a stand-in for a node can have, on Kubernetes, with good and bad controllers."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from breaking import Tooling
from gpuassay.facts.fault_sights import detected, isolated
from gpuassay.fault.rank import NAME
from gpuassay.fault.sweeping import sweep
from gpuassay.judge.fact import Read
from gpuassay.target import kube_hold
from kube_breaking import NODE, Place, frozen_place
from kube_trials import DETECT_S, Kind, conduct, verdict
from kubeapi.store import now
from nodes import needs
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from gpuassay.facts.fault_trial import FaultTrial
    from gpuassay.judge.fact import Fact

pytestmark = needs()
GPU, SCRATCH, FIELD = "0000:18:00.0", "/mnt", "/run/field"
SHARED, RANKED = "/run/shared", "/run/ranked"
_PLAINFS = Path(__file__).parent / "plainfs.py"
# A host engine that has one field; what was put there last is shown.
_DCGMI = f"""#!/bin/sh
case "$1 $2" in
"discovery --list") echo '| 0      | Name: B200 |' ;;
"test --inject") echo "$8" > {FIELD} ;;
dmon*) echo "GPU 0   $(cat {FIELD} 2>/dev/null || echo N/A)" ;;
esac
"""


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Start a cluster with a node that has a kernel log, a GPU on its bus, a host engine and a scratch."""
    folder = tmp_path_factory.mktemp("kube")
    device = folder / "devices" / GPU
    device.mkdir(parents=True)
    (device / "class").write_text("0x030200\n", encoding="ascii")
    (device / "vendor").write_text("0x10de\n", encoding="ascii")
    log(folder).touch()
    with frozen_place(folder) as place:
        place.node.cover("/dev/kmsg", log(folder))
        place.node.cover("/sys/bus/pci/devices", folder / "devices")
        place.node.install("dcgmi", _DCGMI)
        place.node.run("mount", "-t", "tmpfs", "-o", "size=8m", "scratch", SCRATCH)
        serve = (
            f"mkdir {SHARED}; exec setsid -f {sys.executable} {_PLAINFS} {SHARED} </dev/null >/dev/null 2>&1"
        )
        place.node.run("sh", "-c", serve)
        wait_until(lambda: "fuse" in place.node.run("stat", "-f", "-c", "%T", SHARED).stdout)
        yield place


@pytest.fixture
def place(booted: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Give it whole; what a test leaves to the provider is mended as a provider does."""
    for bound in ("_PULL_S", "_ACT_S"):
        monkeypatch.setattr(kube_hold, bound, 2.0)
    log(booted.folder).write_text("6,1,1000,-;Linux version 6.8.0\n", encoding="ascii")
    yield booted
    mend = f"pkill -CONT -x kubelet; pkill -CONT -f {_PLAINFS}; rm -f {FIELD} {RANKED} {SCRATCH}/.gpuassay*"
    booted.node.run("sh", "-c", mend)
    booted.uncordon()
    if booted.has_dead_man():
        sweep(booted.reached(), NODE)
    assert booted.whole()


def log(folder: Path) -> Path:
    """Give the place of the node's kernel log."""
    return folder / "kmsg"


def logged(place: Place, *words: str) -> bool:
    """Tell whether the node's kernel log has one of these words."""
    text = log(place.folder).read_text(encoding="ascii")
    return any(word in text for word in words)


def shown(place: Place) -> bool:
    """Tell whether DCGM shows Xid 79."""
    return "79" in place.node.run("sh", "-c", f"cat {FIELD} || true").stdout


def full(place: Place) -> bool:
    """Tell whether the scratch is nearly full."""
    told = place.node.run("df", "--output=pcent", SCRATCH).stdout
    return int(told.split()[1].rstrip("%")) > 90


def seen(place: Place, sign: str) -> bool:
    """Tell whether something can be seen on the node by a shell's condition."""
    return place.node.run("sh", "-c", sign, check=False).returncode == 0


RANK_GONE = f"ps -C {NAME} >/dev/null && touch {RANKED}; test -e {RANKED} && ! ps -C {NAME} >/dev/null"
KINDS = {
    "kubelet": Kind(
        "failure_injection.frozen_kubelet",
        "service",
        {"service": "kubelet", "how": "freeze"},
        Place.frozen,
    ),
    "xid 79": Kind(
        "synthetic_faults.fallen_gpu_line",
        "kernel_log",
        {"xids": "79"},
        lambda place: logged(place, ": 79,"),
    ),
    "xid 13": Kind(
        "synthetic_faults.application_error_lines",
        "kernel_log",
        {"xids": "13"},
        lambda place: logged(place, ": 79,"),
    ),
    "dcgm": Kind("synthetic_faults.fallen_gpu_in_dcgm", "dcgm", {"field": 230, "value": 79}, shown),
    "scratch": Kind("real_faults.full_scratch", "disk_full", {}, full, {"scratch": SCRATCH}),
    "storage": Kind(
        "real_faults.hung_storage",
        "mount_hang",
        {},
        lambda place: seen(place, f"! timeout 1 stat -f {SHARED} >/dev/null"),
        {"shared": SHARED},
    ),
    "killed rank": Kind(
        "real_faults.killed_rank",
        "rank_signal",
        {"process": NAME, "how": "kill"},
        lambda place: seen(place, RANK_GONE),
    ),
    "frozen rank": Kind(
        "real_faults.frozen_rank",
        "rank_signal",
        {"process": NAME, "how": "stop"},
        lambda place: seen(place, f"ps -C {NAME} -o stat= | grep -q T"),
    ),
}


@dataclass
class Controllers:
    """What providers' controllers do about a fault."""

    place: Place
    kind: Kind

    def start(self, name: str) -> AbstractContextManager[Tooling]:
        """Start the controller of a name."""
        found: Tooling = getattr(self, name)()
        return found

    def good(self) -> Tooling:
        """Cordon a second after the fault shows."""
        return Tooling(self._sick, self.place.cordon, patience_s=1)

    def idle(self) -> Tooling:
        """Do nothing."""
        return Tooling(lambda: False, self.place.cordon)

    def eager(self) -> Tooling:
        """Cordon for whatever stands in the log."""
        return Tooling(lambda: logged(self.place, "Xid"), self.place.cordon)

    def late(self) -> Tooling:
        """Cordon when the time to do so is over."""
        return Tooling(self._sick, self.place.cordon, patience_s=DETECT_S + 2)

    def fickle(self) -> Tooling:
        """Cordon, and let work in again though nothing is mended."""
        return Tooling(self._sick, self._to_and_fro)

    def tenant(self) -> Tooling:
        """Cordon by hand, and no controller does anything."""
        return Tooling(self._sick, lambda: self.place.cordon("kubectl-cordon"))

    def chatty(self) -> Tooling:
        """Write an Event, and no more."""
        return Tooling(self._sick, self._tell)

    def _sick(self) -> bool:
        return self.kind.sick(self.place)

    def _to_and_fro(self) -> None:
        self.place.cordon()
        wait_until(lambda: any(made["metadata"]["name"].endswith("-act-3") for made in self.place.pods()))
        self.place.uncordon()

    def _tell(self) -> None:
        about = {"kind": "Node", "name": NODE}
        told = {"reason": "NodeIsSick", "message": "drain it", "source": {"component": "health-controller"}}
        metadata = {"name": f"{NODE}.1", "namespace": "default", "creationTimestamp": now()}
        self.place.server.store.put("events", {"metadata": metadata, "involvedObject": about, **told})


def value(fact: Fact[Any]) -> Any:
    """Give what was read."""
    assert isinstance(fact, Read), fact
    return fact.value


def injected_at(trial: FaultTrial) -> float:
    """Give when the fault had taken hold, by the wall clock."""
    span = trial.span
    assert span is not None
    return span[0]


@pytest.mark.parametrize(
    ("kind", "controller", "word", "end"),
    [
        ("kubelet", "good", "pass", "handed over"),
        ("kubelet", "idle", "fail", "undone"),
        ("kubelet", "late", "fail", "handed over"),
        ("xid 79", "good", "pass", "handed over"),
        ("xid 79", "idle", "fail", "undone"),
        ("xid 79", "chatty", "fail", "undone"),
        ("xid 13", "good", "pass", "undone"),
        ("xid 13", "eager", "fail", "handed over"),
        ("dcgm", "good", "pass", "handed over"),
        ("dcgm", "idle", "fail", "undone"),
        ("scratch", "good", "pass", "handed over"),
        ("scratch", "idle", "warn", "undone"),
        ("storage", "good", "pass", "handed over"),
        ("storage", "idle", "warn", "undone"),
        ("killed rank", "good", "fail", "handed over"),
        ("killed rank", "idle", "pass", "undone"),
        ("frozen rank", "good", "fail", "handed over"),
        ("frozen rank", "idle", "pass", "undone"),
    ],
)
def test_verdict_times_and_end(place: Place, kind: str, controller: str, word: str, end: str) -> None:
    """Each fault is proven, judged by what the controller made of it and when, and ends as it should."""
    controllers = Controllers(place, KINDS[kind])
    watch_s = DETECT_S + 4 if controller == "late" else 4
    with controllers.start(controller):
        trial = conduct(place.reached(), KINDS[kind], watch_s)
    assert value(trial.delivered) is True
    assert verdict(KINDS[kind], trial, place.folder) == word
    assert value(trial.end) == end
    if end == "handed over":
        acted_s = max(0.0, place.changed_at - injected_at(trial))
        for moment in (trial.moment(detected), trial.moment(isolated)):
            assert moment is not None
            assert moment.since_s - 0.2 <= acted_s <= moment.s + 0.2
            assert moment.s - moment.since_s <= 4  # two seconds to either side
        assert place.standing["unschedulable"]


def test_cordon_of_a_tenant_is_no_detection_and_stays(place: Place) -> None:
    """What somebody does with kubectl helps no provider; the fault is undone, and the cordon is not."""
    controllers = Controllers(place, KINDS["xid 79"])
    with controllers.start("tenant"):
        trial = conduct(place.reached(), KINDS["xid 79"], 4)
    assert verdict(KINDS["xid 79"], trial, place.folder) == "fail"
    assert value(trial.detected) is False
    assert value(trial.isolated) is True
    assert value(trial.end) == "undone"
    assert place.standing["unschedulable"]


def test_node_that_is_let_in_again_still_broken_fails(place: Place) -> None:
    """A cordon that is taken back fails: the node is looked at, and its kubelet takes no pod up."""
    controllers = Controllers(place, KINDS["kubelet"])
    with controllers.start("fickle"):
        trial = conduct(place.reached(), KINDS["kubelet"], 4, mend_s=600, replace_s=15)
    assert verdict(KINDS["kubelet"], trial, place.folder) == "fail"
    assert value(trial.detect_s) < DETECT_S
    assert isinstance(trial.stays_out, Read)
    assert trial.stays_out.value is False
    assert "has not taken it up" in trial.stays_out.note
