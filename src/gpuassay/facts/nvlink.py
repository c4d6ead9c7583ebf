"""The NVLinks of one GPU: which are up, how fast they are, and what they have counted."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Final

from gpuassay.facts.record import Record
from gpuassay.facts.text import brief, graver
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from gpuassay.judge.fact import Fact

_MOST_LINKS: Final = 36  # NVML_NVLINK_MAX_LINKS
_FASTEST: Final = 10**6  # MB/s; the fastest so far has a twentieth of it
_LARGEST: Final = 2**63 - 1
_BER_BITS: Final = 0xFFF
_NAMED: Final = 4

# Of NVLink 5: packets that were not delivered as they were sent
_PACKET_ERRORS: Final = ("malformed", "overrun", "receive", "remote", "integrity")


class NvLink:
    """What the driver says of the links of a GPU. Counters begin when the driver is loaded."""

    def __init__(self, entry: Record) -> None:
        """Look at the driver's answers; those to an older probe have no such part: it did not ask."""
        self._nvlink = Record(entry.values, entry.evidence, "not_asked").record("nvlink")
        self._counters = self._nvlink.record("counters")

    @property
    def up(self) -> Fact[int]:
        """How many links are up; the note names those that are down."""
        links = self._links
        if isinstance(links, Unread):
            return links
        down = [link for link, is_up in enumerate(links.value) if not is_up]
        note = f"{_name(down)} down, of {len(links.value)}" if down else ""
        return Read(len(links.value) - len(down), links.evidence, note)

    @property
    def speed_mbps(self) -> Fact[int]:
        """How fast its fastest link is, in MB/s as the driver counts them."""
        speeds = self._speeds
        return speeds if isinstance(speeds, Unread) else Read(max(speeds.value.values()), speeds.evidence)

    @property
    def slow(self) -> Fact[int]:
        """How many links that are up are slower than the fastest of this GPU; the note names them."""
        speeds = self._speeds
        if isinstance(speeds, Unread):
            return speeds
        fastest = max(speeds.value.values())
        slow = {link: speed for link, speed in speeds.value.items() if speed < fastest}
        told = ", ".join(f"link {link} has {speed}" for link, speed in sorted(slow.items())[:_NAMED])
        return Read(len(slow), speeds.evidence, f"{told}; the fastest has {fastest} MB/s" if slow else "")

    @property
    def effective_ber(self) -> Fact[float]:
        """The share of bits that error correction left wrong, on the worst link (NVLink 5)."""
        return self._worst_ber("effective_ber")

    @property
    def packet_errors(self) -> Fact[int]:
        """How many packets were not received as they were sent (NVLink 5)."""
        return self._sum(*_PACKET_ERRORS)

    @property
    def recoveries(self) -> Fact[int]:
        """How often a link that was up had to be trained again, with success or without."""
        old, new = self._sum("recovery"), self._sum("recovered", "recovery_failed")
        if isinstance(new, Read):
            return new
        return old if isinstance(old, Read) or new.kind == "unsupported" else graver(new, old)

    @property
    def replays(self) -> Fact[int]:
        """How often data had to be sent again (NVLink 1 to 4)."""
        return self._sum("replay")

    @property
    def faults(self) -> Fact[int]:
        """Packets that were lost or sent again, and trainings, as far as its generation counts them."""
        packets, recoveries = self.packet_errors, self.recoveries
        if isinstance(packets, Unread) and packets.kind == "unsupported":
            packets = self.replays
        if isinstance(packets, Unread):
            return packets
        if isinstance(recoveries, Unread):
            return recoveries
        notes = ", ".join(filter(None, (packets.note, recoveries.note)))
        return Read(packets.value + recoveries.value, packets.evidence, notes)

    @property
    def crc_errors(self) -> Fact[int]:
        """How often a check sum was wrong, which is then sent again (NVLink 1 to 4)."""
        return self._sum("crc_flit", "crc_data")

    @cached_property
    def _links(self) -> Fact[tuple[bool, ...]]:
        listed = _listed(self._nvlink, "active")
        if isinstance(listed, Unread):
            return listed
        if not listed.value:
            return Unread("garbled", "the driver lists no link at all", listed.evidence)
        for link, is_up in enumerate(listed.value):
            if type(is_up) is not bool:
                told = Record({"state": is_up}, listed.evidence).look("state")
                why = told.why if isinstance(told, Unread) else f"its state is {brief(repr(is_up))}"
                kind = told.kind if isinstance(told, Unread) else "garbled"
                return Unread(kind, f"link {link}: {why}", listed.evidence)
        return Read(tuple(listed.value), listed.evidence)

    @cached_property
    def _speeds(self) -> Fact[dict[int, int]]:
        """Read the speeds of the links that are up."""
        links, speeds = self._links, _listed(self._nvlink, "speed_mbps")
        if isinstance(links, Unread):
            return links
        up = [link for link, is_up in enumerate(links.value) if is_up]
        if not up:
            return Unread("failed", f"none of its {len(links.value)} links is up", links.evidence)
        numbers = _numbers("speed", speeds, up, _FASTEST)
        if isinstance(numbers, Read) and not min(numbers.value.values()):
            return Unread("failed", "a link is up, and the driver says that its speed is 0", numbers.evidence)
        return numbers

    def _counted(self, name: str) -> Fact[dict[int, int]]:
        """Read one counter of every link."""
        links = self._links
        if isinstance(links, Unread):
            return links
        listed = _listed(self._counters, name)
        return _numbers(name, listed, range(len(links.value)), _LARGEST)

    def _sum(self, *names: str) -> Fact[int]:
        """Add up counters of all links; the note names the links and kinds that counted most."""
        parts: Counter[tuple[str, int]] = Counter()
        evidence = ""
        for name in names:
            counted = self._counted(name)
            if isinstance(counted, Unread):
                return counted
            evidence = counted.evidence
            if any(counted.value.values()):
                parts.update({(name, link): count for link, count in counted.value.items() if count})
        worst = [
            f"{count} x {name.replace('_', ' ')} on link {link}"
            for (name, link), count in parts.most_common(_NAMED)
        ]
        return Read(sum(parts.values()), evidence, ", ".join(worst))

    def _worst_ber(self, name: str) -> Fact[float]:
        """Decode error rates: 8 bits of exponent below 4 bits of what stands before it."""
        counted = self._counted(name)
        if isinstance(counted, Unread):
            return counted
        odd = [raw for raw in counted.value.values() if raw > _BER_BITS]
        if odd:
            return Unread("garbled", f"{name} is {odd[0]}, which has more than 12 bits", counted.evidence)
        rates = {link: float(f"{raw >> 8}e-{raw & 0xFF}") for link, raw in counted.value.items()}
        worst = max(rates, key=lambda link: rates[link])
        return Read(rates[worst], counted.evidence, f"link {worst} is the worst")


def _listed(record: Record, key: str) -> Fact[list[Any]]:
    fact = record.look(key)
    if isinstance(fact, Unread):
        return fact
    if not isinstance(fact.value, list) or len(fact.value) > _MOST_LINKS:
        return record.garbled(key, fact.value, f"a list of up to {_MOST_LINKS}")
    return fact


def _numbers(name: str, listed: Fact[list[Any]], links: Iterable[int], most: int) -> Fact[dict[int, int]]:
    """Read a number for each of these links; one that is unread leaves all unread, and says which it is."""
    if isinstance(listed, Unread):
        return listed
    sound = all(type(one) is int and 0 <= one <= most for one in listed.value)
    if sound and list(links) == list(range(len(listed.value))):  # as it should be, and mostly is
        return Read(dict(enumerate(listed.value)), listed.evidence)
    told: Mapping[str, Any] = {f"{link}": value for link, value in enumerate(listed.value)}
    record, numbers = Record(told, listed.evidence), {}
    for link in links:
        number = record.count(f"{link}", most)
        if isinstance(number, Unread):
            return Unread(number.kind, f"{name} of link {link}: {number.why}", listed.evidence)
        numbers[link] = number.value
    return Read(numbers, listed.evidence)


def _name(links: list[int]) -> str:
    if len(links) == 1:
        return f"link {links[0]} is"
    more = f" and {len(links) - _NAMED} more" if len(links) > _NAMED else ""
    return f"links {', '.join(map(str, links[:_NAMED]))}{more} are"
