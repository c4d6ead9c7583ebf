"""The redacted edition: no name is left in it, and it is held against the full run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuassay import cli
from gpuassay.evidence.run import REDACTED, SIGNED
from gpuassay.signing import keys
from gpuassay.signing.envelope import SigningError
from gpuassay.signing.names import Redactor
from gpuassay.signing.redact import redact, unlike_full
from plugging import ROOT
from signed import Signed, signed
from test_signing import run_of

if TYPE_CHECKING:
    from pathlib import Path

from gpuassay.signing.commands import KINDS

ALL = frozenset(KINDS)
KNOWN = {"gpu001": "nodes", "gpu002": "nodes", "1912636281189": "serials", "big cloud": "provider"}
NAMES = Redactor(b"0123456789abcdef", KNOWN, ALL)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    """Give a signed run."""
    return signed(tmp_path_factory)


@pytest.fixture
def edition(whole: Signed, tmp_path: Path) -> Signed:
    """Give its redacted edition."""
    redact(whole.run, tmp_path / "out", tmp_path / "secret", whole.key, ALL)
    return Signed(tmp_path / "out", whole.key)


def test_an_edition_verifies_alone_and_against_the_full_run(whole: Signed, edition: Signed) -> None:
    """By its signature, and made once more from the run."""
    assert edition.problems() == []
    assert list(unlike_full(edition.run, whole.run, edition.run.parent / "secret")) == []
    verify = ["verify", str(edition.run), f"--key={whole.public}", "--on=2026-12-01", f"--full={whole.run}"]
    assert cli.main([*verify, f"--secret={edition.run.parent / 'secret'}"]) == 0
    assert cli.main(verify) == 2


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_byte_of_an_edition_can_be_flipped(edition: Signed, data: st.DataObject) -> None:
    """Any other byte at any place of any file of it: verify fails, and names that file."""
    name = data.draw(st.sampled_from(sorted(path.name for path in edition.run.iterdir())))
    whole_file = (edition.run / name).read_bytes()
    content = bytearray(whole_file)
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    (edition.run / name).write_bytes(content)
    try:
        assert any(name in problem for problem in edition.problems()), name
    finally:
        (edition.run / name).write_bytes(whole_file)


def test_no_name_is_left_of_a_real_suite_on_a_recorded_cluster(tmp_path: Path, whole: Signed) -> None:
    """No node, cluster, provider, account or ticket is in any file, whatever phase told; verdicts stay."""
    cluster = ROOT / "fixtures" / "recorded" / "slurm-b200-4" / "recording"
    run_of(cluster, tmp_path / "run")
    Signed(tmp_path / "run", whole.key).sign()
    redact(tmp_path / "run", tmp_path / "out", tmp_path / "secret", whole.key, ALL)

    full = json.loads((tmp_path / "run" / "results.json").read_text())
    mine = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [(key, one["verdict"], one["counts"]) for key, one in mine["checks"].items()] == [
        (key, one["verdict"], one["counts"]) for key, one in full["checks"].items()
    ]
    nodes = [path.stem for path in (cluster / "nodes").iterdir()]
    owners = [full["recording"]["cluster"], full["recording"]["provider"]]
    accounts = ["healthd", "CHG-0000"]
    assert len(nodes) == 4
    shown = (tmp_path / "run" / "results.json").read_text()
    assert [word for word in (f"nodes/{nodes[0]}#", '"node": "gpu001"', *accounts) if word not in shown] == []
    for path in (tmp_path / "out").iterdir():
        text = path.read_text()
        assert [name for name in (*nodes, *owners, *accounts) if name in text] == [], path
        assert "gpu[001-" not in text


def test_only_what_was_asked_for_is_hidden(whole: Signed, tmp_path: Path) -> None:
    """With ``--names=cluster`` nodes keep their names."""
    words = ["redact", str(whole.run), str(tmp_path / "out"), f"--key={whole.key}"]
    assert cli.main([*words, f"--secret={tmp_path / 'secret'}", "--names=cluster"]) == 0
    assert "gpu00" in (tmp_path / "out" / "results.json").read_text()
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    with pytest.raises(SystemExit):
        cli.main([*words, f"--secret={tmp_path / 'secret'}", "--names=ages"])


def test_an_edition_that_tells_otherwise_is_named(whole: Signed, edition: Signed) -> None:
    """Whoever signs the edition can write what they like into it; the full run shows it."""
    path = edition.run / "results.json"
    results = json.loads(path.read_text())
    results["checks"]["audit.a.d"]["verdict"] = "pass"
    results["profile"] = "rating"
    path.write_text(json.dumps(results))
    assert any(problem.startswith("results.json: not as it was signed") for problem in edition.problems())
    found = list(unlike_full(edition.run, whole.run, edition.run.parent / "secret"))
    assert len(found) == 2
    assert found[0].startswith("results.json: audit.a.d is not what ")
    assert found[1].startswith("results.json: profile is not what ")


def test_another_secret_and_another_run_are_named(whole: Signed, edition: Signed, tmp_path: Path) -> None:
    """Neither gives the same hashes, or the same statement."""
    (tmp_path / "other").write_text("f" * 32)
    assert any("results.json: " in one for one in unlike_full(edition.run, whole.run, tmp_path / "other"))
    again = whole.copy(tmp_path / "again")
    again.sign(days=30)
    assert any("of another run" in one for one in unlike_full(edition.run, again.run, tmp_path / "secret"))


def test_what_cannot_be_redacted_is_an_error(whole: Signed, edition: Signed, tmp_path: Path) -> None:
    """A folder in use, a short secret, a run that nobody signed, an edition, and a full run as an edition."""
    secret, key = tmp_path / "secret", whole.key
    with pytest.raises(SigningError, match="there already"):
        redact(whole.run, edition.run, secret, key, ALL)
    (tmp_path / "short").write_text("short")
    with pytest.raises(SigningError, match="expected a secret of 16 bytes"):
        redact(whole.run, tmp_path / "x", tmp_path / "short", key, ALL)
    with pytest.raises(SigningError, match="a redacted edition itself"):
        redact(edition.run, tmp_path / "x", secret, key, ALL)
    with pytest.raises(SigningError, match="signed as it is made"):
        edition.sign()
    with pytest.raises(SigningError, match="expected a redacted edition"):
        list(unlike_full(whole.run, whole.run, secret))
    bare = whole.copy(tmp_path / "bare")
    (bare.run / SIGNED).unlink()
    with pytest.raises(SigningError, match=SIGNED):
        redact(bare.run, tmp_path / "x", secret, key, ALL)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"kinds": []}'])
def test_a_broken_redaction_is_named(whole: Signed, edition: Signed, content: str) -> None:
    """It is told as a problem of that file, or as an error that names it."""
    (edition.run / REDACTED).write_text(content)
    assert any(REDACTED in problem for problem in edition.problems())
    try:
        found = list(unlike_full(edition.run, whole.run, edition.run.parent / "secret"))
    except SigningError as error:
        found = [str(error)]
    assert any(REDACTED in problem for problem in found)


@pytest.mark.parametrize(
    "text",
    [
        "gpu001 differs",
        "GPU001.example.com: differs.",
        "nodes/gpu001#12",
        "gpu[001-002] and gpu003",
        "the serial 1912636281189 is gone",
        "10.0.0.7 and fe80::1",
        "GPU-3f2a1b4c-0000-1111-2222-333344445555",
        "https://grafana.example.com/d/1",
        "b8:ce:f6:00:11:22",
        "Big Cloud says so",
    ],
)
def test_names_are_found_in_sentences(text: str) -> None:
    """Alone, with a domain, in a node set, as an address: what stands there is replaced, the rest is not."""
    hidden = NAMES.text(text)
    assert hidden != text
    for name in (
        "gpu001",
        "1912636281189",
        "10.0.0.7",
        "fe80::1",
        "3f2a1b4c",
        "grafana",
        "b8:ce",
        "big cloud",
    ):
        assert name not in hidden.lower()
    assert NAMES.text(text) == hidden


@pytest.mark.parametrize(
    "text", ["580.95.05", "08:00:09", "0000:1a:00.0", "gpu003", "16GiB", "[0-7]", "2.13.0+cu130"]
)
def test_what_is_no_name_stays(text: str) -> None:
    """Versions, times, PCI addresses and nodes that are not known."""
    assert NAMES.text(text) == text


def test_what_is_in_a_node_keeps_its_name() -> None:
    """A place is a node and a part: eight GPUs of two nodes are eight GPUs of two hashes."""
    one, two = NAMES.hidden("nodes", "gpu001"), NAMES.hidden("nodes", "gpu002")
    assert NAMES.where("gpu[001-002]/gpu[0-7]") == f"{one}/gpu[0-7],{two}/gpu[0-7]"
    assert NAMES.where("gpu001/to gpu[001-002]") == f"{one}/to {one}+{two}"
    assert NAMES.where("mount:/home") == "mount:/home"


@given(st.text(max_size=60))
def test_hashes_are_stable_and_keyed(name: str) -> None:
    """The same name has one hash by one secret, and another by another."""
    other = Redactor(b"fedcba9876543210", KNOWN, ALL)
    assert NAMES.hidden("nodes", name) == NAMES.hidden("nodes", name)
    assert NAMES.hidden("nodes", name) != other.hidden("nodes", name)
    assert NAMES.hidden("nodes", name) != NAMES.hidden("serials", name)


@given(st.text(max_size=200))
def test_any_text_can_be_redacted(text: str) -> None:
    """Nothing that a report may hold makes it stumble, and no node's name is left."""
    assert "gpu001" not in NAMES.text(f"{text} gpu001 {text}").lower().split()


def test_keys_stay_readable(tmp_path: Path) -> None:
    """A pair that was made is read back as one."""
    _, keyid = keys.generate(tmp_path / "key")
    assert (
        keys.public_key(tmp_path / "key.pub").keyid == keys.signer(tmp_path / "key").public_key.keyid == keyid
    )
