"""What the management of an InfiniBand fabric tells whoever asks from a node: three read-only queries.

`smpquery` asks the switch at the other end of the first active port for its description, which no key
protects, and for its port information, which the M_Key does; `saquery` asks the subnet administrator for the
nodes of the fabric. Of the answers the key's state and counts are kept: no name, no address, no key.
Who may not open the management device sends no such packet: then nothing of the keys is seen.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuassay.facts.record import Record
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.diagnosis import no_report

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.evidence.item import Item
    from gpuassay.judge.fact import Fact, Scalar

_ASK = r"""
import json, os, re, shutil, subprocess, sys
root, seconds = sys.argv[1], float(sys.argv[2])
os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin"
def line(path):
    try:
        with open(root + path) as file:
            return file.read().strip()
    except OSError:
        return ""
def ask(*words):
    try:
        ran = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return ""
    return ran.stdout.decode(errors="replace") if ran.returncode == 0 else ""
def told(port):
    device, number, umad = port
    if not os.access(root + "/dev/infiniband/" + umad, os.R_OK | os.W_OK):
        return {"closed": umad}
    if not shutil.which("smpquery") or not shutil.which("saquery"):
        return {"without": "smpquery and saquery"}
    at = ("-C", device, "-P", number)
    described = "Node Description" in ask("smpquery", *at, "-D", "nodedesc", "0,1")
    info = ask("smpquery", *at, "-D", "portinfo", "0,1", "0")
    key = re.search(r"^Mkey:\.*(0x[0-9a-f]+)", info, re.M)
    bits = re.search(r"^ProtectBits:\.*([0-9])", info, re.M)
    nodes = ask("saquery", *at, "NR")
    return {
        "reached": described,
        "key_is_zero": int(key[1], 16) == 0 if key else None,
        "protect_bits": int(bits[1]) if bits else None,
        "switches": len(re.findall(r"node_type\.+Switch", nodes)),
        "adapters": len(re.findall(r"node_type\.+Channel Adapter", nodes)),
    }
found, mads = [], "/sys/class/infiniband_mad"
for umad in sorted(os.listdir(root + mads)) if os.path.isdir(root + mads) else []:
    device, number = (line(mads + "/" + umad + "/" + name) for name in ("ibdev", "port"))
    port = "/sys/class/infiniband/" + device + "/ports/" + number
    active = "ACTIVE" in line(port + "/state") and line(port + "/link_layer") == "InfiniBand"
    if umad.startswith("umad") and active:
        found.append((device, number, umad))
print(json.dumps(told(found[0]) if found else {"none": True}))
"""

PROTECTED, OPEN, SHOWN = "protected", "open to anybody", "shown to anybody"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the fabric's management told on one node."""

    node: str
    m_key: Fact[str]
    shows_fabric: Fact[bool]
    models: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """Its place: the node."""
        return self.node


class FabricSeat:
    """Two queries to the next switch and one to the subnet administrator, by the node's own tools."""

    method = 1

    def argv(self, args: Mapping[str, Scalar]) -> tuple[str, ...]:
        """Give the command; ``seconds`` is how long each query may take."""
        return ("python3", "-I", "-S", "-B", "-c", _ASK, "", str(args["seconds"]))

    def read(self, node: str, args: Mapping[str, Scalar], item: Item | Unread, ref: str) -> Asked:  # noqa: ARG002 - as all tools
        """Read what was told, or why nothing can be."""
        if isinstance(item, Unread):
            return Asked(node, item, item)
        answer = Record(_document(item.out), ref)
        hidden = _hidden(answer, ref)
        if hidden:
            return Asked(node, hidden, hidden)
        reached = answer.flag("reached")
        if isinstance(reached, Unread):
            nothing = no_report(item, ref, "python3")
            return Asked(node, nothing, nothing)
        return Asked(node, _key(answer, reached.value, ref), _fabric(answer, ref))


def _hidden(answer: Record, ref: str) -> Unread | None:
    """Say why nothing could be asked, if so."""
    values = answer.values if not isinstance(answer.values, Unread) else {}
    if "closed" in values:
        why = "this user may not open the management device, so no key of the fabric is seen"
        return Unread("denied", why, ref)
    if "without" in values:
        return Unread(
            "denied", "smpquery and saquery are not on the node, so no key of the fabric is seen", ref
        )
    if "none" in values:
        return Unread("denied", "no active port of InfiniBand has a management device here", ref)
    return None


def _key(answer: Record, reached: bool, ref: str) -> Fact[str]:  # noqa: FBT001 - one answer of three
    zero, bits = answer.look("key_is_zero"), answer.look("protect_bits")
    if isinstance(zero, Unread):
        return zero
    if isinstance(bits, Unread):
        return bits
    if not isinstance(zero.value, bool | None) or type(bits.value) not in (int, type(None)):
        return answer.garbled("protect_bits", [zero.value, bits.value], "the state of a key")
    if zero.value is None or bits.value is None:
        if not reached:
            return Unread("failed", "the next switch answered neither query", ref)
        return Read(PROTECTED, ref, "the next switch describes itself, and keeps its port information")
    if bits.value:
        return Read(PROTECTED, ref, f"M_KeyProtectBits is {bits.value}")
    if zero.value:
        return Read(
            OPEN, ref, "the next switch answers without a key: M_Key is 0, and so are its protect bits"
        )
    return Read(SHOWN, ref, "the next switch shows its M_Key: M_KeyProtectBits is 0")


def _fabric(answer: Record, ref: str) -> Fact[bool]:
    switches, adapters = answer.count("switches"), answer.count("adapters")
    if isinstance(switches, Unread):
        return switches
    if isinstance(adapters, Unread):
        return adapters
    note = f"the subnet administrator lists {switches.value} switches and {adapters.value} adapters"
    return Read(switches.value > 0, ref, note)


def _document(out: bytes) -> Any:
    try:
        document = json.loads(out)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
