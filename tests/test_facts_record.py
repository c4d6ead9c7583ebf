"""The strict reader of JSON documents, and items that did not come."""

from __future__ import annotations

from typing import Any

import pytest

from facts_evidence import absent, evidence, mark, unread, value
from gpuassay.facts.record import Record
from gpuassay.facts.source import document, text
from gpuassay.facts.text import brief, pci_address
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import natural


def test_a_value_carries_the_reference_of_its_item() -> None:
    """What was read can be looked up in the recording."""
    record = document(evidence({"host": {}, "clock": {"state": 3}}), "clock")
    assert record.count("state") == Read(3, "nodes/n1#2")


@pytest.mark.parametrize("odd", [True, 16.0, "16", -1, None, [], {}, 2**63, 10**40])
def test_only_a_whole_number_is_a_count(odd: Any) -> None:
    """A bool is not a number, and what no counter can hold is none either."""
    assert unread(Record({"n": odd}).count("n")).kind == "garbled"


@pytest.mark.parametrize("odd", [0, 1, "true", "Yes", None, []])
def test_only_true_and_false_are_flags(odd: Any) -> None:
    """Neither 0 nor "No" passes for false."""
    assert unread(Record({"on": odd}).flag("on")).kind == "garbled"


@pytest.mark.parametrize("odd", ["", "  ", "a\x00b", "\ufffd", chr(0xD800), "two\nlines", 5, None, ["x"]])
def test_only_a_printable_line_is_a_text(odd: Any) -> None:
    """Binary dirt in a name is no name."""
    assert unread(Record({"name": odd}).text("name")).kind == "garbled"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("[N/A]", "unsupported"),
        ("Not Supported", "unsupported"),
        ("Requested functionality has been deprecated", "unsupported"),
        ("[GPU is lost]", "failed"),
        ("ERR!", "failed"),
        ("Insufficient Permissions", "denied"),
        ("Function Not Found", "not_found"),
    ],
)
def test_words_in_place_of_a_value_are_no_value(said: str, kind: str) -> None:
    """Where a tool says why it has no value, the fact says so too."""
    assert unread(Record({"name": said}).text("name")).kind == kind


def test_a_mark_gives_its_own_reason_to_all_below_it() -> None:
    """One refusal of a driver stands for every value that it would have given."""
    record = Record({"ecc": mark("unsupported", "NVML: Not Supported (3)")}, "nodes/n1#2")
    wanted = Unread("unsupported", "NVML: Not Supported (3)", "nodes/n1#2")
    assert record.record("ecc").flag("current") == wanted
    assert record.record("ecc").record("deeper").count("still") == wanted


@pytest.mark.parametrize("kind", ["ok", "", None, 3, ["failed"], {}])
def test_a_mark_of_an_unknown_kind_is_garbled(kind: Any) -> None:
    """No word that we do not know opens a way to a verdict."""
    assert unread(Record({"x": {"unread": kind}}).look("x")).kind == "garbled"


def test_the_lack_of_a_key_depends_on_the_document() -> None:
    """A file that the kernel does not have is not there; a key that every probe writes is damage."""
    source = evidence({"pci": {}, "nvml": {}})
    assert unread(document(source, "pci", missing="not_found").text("vendor")).kind == "not_found"
    assert unread(document(source, "nvml").text("driver")).kind == "garbled"


@pytest.mark.parametrize("out", [b"", b"{", b"[]", b"3", b"null", b"\xff\xfe", b"[" * 100_000, b'{"a": 1} x'])
def test_what_is_no_json_object_is_garbled(out: bytes) -> None:
    """Half a document, or one nested without end, gives no value and no exception."""
    record = document(evidence({"nvml": out}), "nvml")
    assert unread(record.count("count")).kind == "garbled"


@pytest.mark.parametrize("status", ["not_found", "denied", "timed_out", "failed", "unsupported"])
def test_an_item_that_did_not_come_says_why(status: str) -> None:
    """The kinds of absence stay apart on the way from the probe to a fact."""
    source = evidence({"limits": absent(status, "Permission denied", out=b"half")})
    assert text(source, "limits") == Unread(status, "Permission denied", "nodes/n1#1")  # type: ignore[arg-type]


def test_an_item_that_was_cut_off_is_garbled() -> None:
    """A number without its last digits must not pass."""
    item = absent("ok", out=b"1209876.42 9")
    source = evidence({"uptime": item})
    assert value(text(source, "uptime")).startswith("1209876")
    cut = evidence({"uptime": type(item)("uptime", 1, out=item.out, truncated=True)})
    assert unread(text(cut, "uptime")).kind == "garbled"


def test_an_item_that_is_not_there_was_not_asked_for() -> None:
    """An older probe asked less: that is not run, unless the node's file is damaged."""
    assert unread(text(evidence({}), "limits")).kind == "not_asked"
    damaged = text(evidence({}, problems=["nodes/n1.jsonl:3: cut off"]), "limits")
    assert unread(damaged).kind == "garbled"
    assert "cut off" in unread(damaged).why


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("00000000:8F:00.0", "0000:8f:00.0"),
        ("0000:8f:00.0", "0000:8f:00.0"),
        ("00000008:06:00.0", "0008:06:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("8F:00.0", None),
        ("0000:8f:00.8", None),
        ("N/A", None),
    ],
)
def test_pci_addresses_are_written_as_the_kernel_does(written: str, address: str | None) -> None:
    """Bus and driver write one address in two ways; they must meet."""
    assert pci_address(written) == address


def test_natural_order_counts() -> None:
    """Node 2 comes before node 10, and digits of any length are a number."""
    names = ["gpu10", "gpu2", "gpu2-ib1", "a9" + "9" * 60, "login"]
    assert sorted(names, key=natural) == [names[3], "gpu2", "gpu2-ib1", "gpu10", "login"]


def test_foreign_texts_are_cut_to_a_line() -> None:
    """A reason never brings control characters or a page of output into a report."""
    assert brief("one\x1b[31m\ntwo\t three") == "one [31m two three"
    assert len(brief("x" * 10_000)) < 200
