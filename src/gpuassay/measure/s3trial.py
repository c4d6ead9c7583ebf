"""What a trial of object storage showed: the answers of its steps, read into counts of what went wrong."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from gpuassay.facts.source import document, take
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import first_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpuassay.facts.record import Record
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

T = TypeVar("T")

_OPERATIONS = ("put", "get", "head", "range", "list", "overwrite", "multipart", "delete")
_READS = ("range", "overwrite", "multipart")  # each with one sum that is expected, and one that came
_GIVEN, _REFUSED, _LARGEST_STATUS = range(200, 300), range(300, 500), 599


class _LackError(Exception):
    """Something that is needed was not read."""

    def __init__(self, unread: Unread) -> None:
        super().__init__(unread.why)
        self.unread = unread


class ObjectTrial:
    """Object storage as it was found; what hindered the whole trial is the reason of every fact."""

    where, node = "s3", ""
    models: tuple[str, ...] = ()

    def __init__(self, evidence: Evidence) -> None:
        """Take the answers of the survey."""
        self._evidence = evidence

    # --- what it does with objects -------------------------------------------------------------------

    @property
    def refused(self) -> Fact[int]:
        """How many kinds of operations did not work; the note says which, and how they failed."""
        return self._counted("put", self._refusals)

    def _refusals(self) -> Iterator[str]:
        for name in _OPERATIONS:
            fact = take(self._evidence, name)
            if isinstance(fact, Unread):
                if fact.kind not in ("failed", "denied"):
                    raise _LackError(fact)
                yield f"{name} ({fact.why})"
            else:
                _need(document(self._evidence, name))

    @property
    def lost(self) -> Fact[int]:
        """How many objects were not there after the store had taken them."""
        return self._counted("get", lambda: [name for name, got in self._each("get", "got") if got is None])

    @property
    def wrong_bytes(self) -> Fact[int]:
        """How many reads gave other bytes, or told of another size, than were put."""
        return self._counted("get", self._wrong)

    def _wrong(self) -> Iterator[str]:
        for step, key, mine in (("get", "got", "sent"), ("head", "size", "size")):
            sent = dict(self._each("put", mine))
            for name, came in self._each(step, key):
                if came != sent[name] and (step, came) != ("get", None):  # that one is lost
                    yield f"{step} of {name}"
        for step in _READS:
            told = document(self._evidence, step)
            if _value(told.look("got")) != _value(told.text("expected")):
                yield step

    @property
    def other_tags(self) -> Fact[int]:
        """How many objects have another tag (ETag) when read, or looked at, than when they were put."""
        return self._counted("head", self._retagged)

    def _retagged(self) -> Iterator[str]:
        put = dict(self._each("put", "etag"))
        for step, key in (("get", "got"), ("head", "size")):
            there = [name for name, told in self._each(step, key) if told is not None]
            told = document(self._evidence, step)
            yield from (name for name in there if _value(told.record(name).look("etag")) != put[name])

    @property
    def not_listed(self) -> Fact[int]:
        """How many objects a listing did not have right after they were put, or had with another size."""
        return self._counted("list", self._unlisted)

    def _unlisted(self) -> Iterator[str]:
        listed = document(self._evidence, "list")
        _need(listed)
        for name, size in self._each("put", "size"):
            told = listed.record(name).count("size")
            if isinstance(told, Unread) or told.value != size:
                yield name

    @property
    def undeleted(self) -> Fact[int]:
        """How many objects could be read, or were listed, after they were deleted."""
        return self._counted("delete", self._still_there)

    def _still_there(self) -> list[str]:
        told = document(self._evidence, "delete")
        if not _value(told.count("deleted")):
            raise _LackError(told.garbled("deleted", 0, "the number of objects that were put"))
        return [*dict.fromkeys(name for key in ("still_read", "still_listed") for name in _names(told, key))]

    @property
    def left_behind(self) -> Fact[int]:
        """How much of the trial could not be removed again; the note says what, and why."""
        return self._counted("removed", self._left)

    def _left(self) -> list[str]:
        told = document(self._evidence, "removed")
        named = [*_names(told, "left"), *_names(told, "errors")]
        more = _value(told.count("left_count")) - len(_names(told, "left"))
        return [*named, *["another"] * more]

    # --- who else gets at them -----------------------------------------------------------------------

    @property
    def read_by_anybody(self) -> Fact[bool]:
        """Whether an object could be read without a key."""
        return self._given("read")

    @property
    def listed_by_anybody(self) -> Fact[bool]:
        """Whether the bucket could be listed without a key."""
        return self._given("list")

    @property
    def written_by_anybody(self) -> Fact[bool]:
        """Whether an object could be put without a key."""
        return self._given("write")

    def _given(self, how: str) -> Fact[bool]:
        if self._hindrance:
            return self._hindrance
        told = document(self._evidence, "anonymous")
        status = told.count(how, most=_LARGEST_STATUS)
        if isinstance(status, Unread):
            return status
        if status.value not in _GIVEN and status.value not in _REFUSED:
            return Unread(
                "failed", f"without a key, the store itself failed: HTTP {status.value}", told.evidence
            )
        return Read(status.value in _GIVEN, told.evidence, f"HTTP {status.value} to a request without a key")

    @property
    def encrypted(self) -> Fact[bool]:
        """Whether the way to it is encrypted, by a certificate that can be verified."""
        if self._absence:
            return self._absence
        broken = self._evidence.item("tls")
        if broken is not None:
            why = f"no connection that can be trusted: {broken.why}"
            return Read(value=False, evidence=self._evidence.ref(broken), note=why)
        if self._hindrance:  # nothing came through, so nothing is known of the way
            return self._hindrance
        scheme = document(self._evidence, "endpoint").text("scheme", r"https?", "http or https")
        if isinstance(scheme, Unread):
            return scheme
        return Read(scheme.value == "https", scheme.evidence, "its endpoint in the site file is http://")

    # --- reading -------------------------------------------------------------------------------------

    @cached_property
    def _absence(self) -> Unread | None:
        """Why it was not tried at all: a library or a key is missing where the suite runs."""
        item = self._evidence.item("client")
        return Unread("not_asked", item.why, self._evidence.ref(item)) if item else None

    @cached_property
    def _hindrance(self) -> Unread | None:
        """Why no object could be put: no library, no way to it, no bucket."""
        if self._absence:
            return self._absence
        broken = self._evidence.item("tls")
        if broken is not None:
            return Unread("failed", broken.why, self._evidence.ref(broken))
        return document(self._evidence, "bucket").unread

    def _counted(self, step: str, find: Callable[[], list[str] | Iterator[str]]) -> Fact[int]:
        """Count what is found, with the evidence of a step; the note names the first few."""
        if self._hindrance:
            return self._hindrance
        try:
            found = list(find())
        except _LackError as lack:
            return lack.unread
        return Read(len(found), document(self._evidence, step).evidence, first_of(found))

    def _each(self, step: str, key: str) -> Iterator[tuple[str, object]]:
        """Give what a step told of each object that was put."""
        put, told = document(self._evidence, "put"), document(self._evidence, step)
        _need(put)
        names = [name for name, _ in put.items()]
        if not names:
            raise _LackError(Unread("garbled", "it is not told that any object was put", put.evidence))
        for name in names:
            yield name, _value(told.record(name).look(key))


def _need(record: Record) -> None:
    if record.unread:
        raise _LackError(record.unread)


def _value(fact: Fact[T]) -> T:
    if isinstance(fact, Unread):
        raise _LackError(fact)
    return fact.value


def _names(told: Record, key: str) -> list[str]:
    names = _value(told.look(key))
    if not isinstance(names, list):
        raise _LackError(told.garbled(key, names, "a list of names"))
    return [str(name) for name in names]
