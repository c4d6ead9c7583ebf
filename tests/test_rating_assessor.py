"""Who stands behind an assessor's file: signed, or stamped as not proven, or refused as altered."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from gpuassay import cli
from gpuassay.rating.assessor import load_assessment
from gpuassay.rating.document import rating
from gpuassay.rating.merge import plan
from gpuassay.rating.pages import podium_page, rating_page
from gpuassay.rating.podium import podium
from gpuassay.rating.source import read_source
from gpuassay.rating.told import lines
from gpuassay.signing import keys
from gpuassay.signing.assessment import Standing, beside, sign, standing
from gpuassay.signing.envelope import SigningError
from rating import catalog
from recorded import build
from recorded.judge import judge

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TEXT = """cluster = "h200-measured"

[[statement]]
about = "support"
says = "Two of three tickets were answered after more than a day."
role = "operations lead of the tenant"
date = 2026-11-28
evidence = ["ticket 4711"]
verdict = "at_most_ribbon"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Write an assessor's file, and the key pairs of an assessor, a second one, and a stranger."""
    for name in ("assessor", "second", "stranger"):
        keys.generate(tmp_path / name)
    path = tmp_path / "assessor.toml"
    path.write_text(TEXT)
    return path


def stands(path: Path, *names: str) -> Standing:
    """Ask how it is signed, by the public keys of these."""
    return standing(
        path, load_assessment(path, None).sha256, [path.with_name(f"{name}.pub") for name in names]
    )


def test_a_signature_is_verified_by_the_keys_that_were_given(file: Path) -> None:
    """One or two of them sign the same text; no envelope, no key and another key are told apart."""
    assert stands(file, "assessor").word == "unsigned"
    assert cli.main(["sign", str(file), f"--key={file.with_name('assessor')}"]) == 0
    known = stands(file, "assessor")
    assert (known.word, known.by, known.why) == ("signed", (keyid(file, "assessor"),), "")
    assert stands(file).word == "unverified"
    assert keyid(file, "assessor") in stands(file).why
    wrong = stands(file, "assessor", "stranger")
    assert (wrong.word, wrong.by) == ("wrong key", ())
    assert keyid(file, "stranger") in wrong.why
    sign(file, file.with_name("second"))
    assert stands(file, "assessor", "second").by == (keyid(file, "assessor"), keyid(file, "second"))


def keyid(file: Path, name: str) -> str:
    """Give the id of a key."""
    return str(keys.public_key(file.with_name(f"{name}.pub")).keyid)


def test_another_text_ends_all_signatures_under_the_first(file: Path) -> None:
    """Who signed the old words has not signed the new ones."""
    sign(file, file.with_name("assessor"))
    file.write_text(TEXT.replace("at_most_ribbon", "at_most_gold"))
    _, signers = sign(file, file.with_name("second"))
    assert signers == [keyid(file, "second")]
    assert stands(file, "assessor").word == "wrong key"


@given(place=st.integers(0, len(TEXT) - 1), flip=st.integers(1, 127))
def test_no_byte_of_the_text_can_be_flipped(
    tmp_path_factory: pytest.TempPathFactory, place: int, flip: int
) -> None:
    """Whatever the other text says, or whether it is TOML at all, verifying it names the file."""
    folder = tmp_path_factory.mktemp("file")
    keys.generate(folder / "key")
    path = folder / "assessor.toml"
    path.write_text(TEXT)
    sign(path, folder / "key")
    content = bytearray(TEXT.encode())
    content[place] ^= flip
    path.write_bytes(content)
    assert cli.main(["verify", str(path), f"--key={folder / 'key.pub'}"]) != 0
    with pytest.raises(SigningError, match=r"assessor\.toml: not as it was signed"):
        standing(path, "0" * 64, [folder / "key.pub"])


def test_a_signature_of_another_text_is_refused(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A payload exchanged beneath a signature is altered, and no mere wrong key; nothing is judged."""
    envelope, _ = sign(file, file.with_name("assessor"))
    old = json.loads(envelope.read_text())["signatures"]
    file.write_text(TEXT.replace("at_most_ribbon", "holds"))
    sign(file, file.with_name("stranger"))
    forged = json.loads(envelope.read_text()) | {"signatures": old}
    envelope.write_text(json.dumps(forged, sort_keys=True, separators=(",", ":")) + "\n")
    with pytest.raises(SigningError, match=r"assessor\.toml\.dsse\.json: the signature of .* altered"):
        stands(file, "assessor")
    words = ["rate", str(build("h200-measured")), f"--assessor={file}", f"--out={tmp_path / 'out'}"]
    assert cli.main([*words, f"--key={file.with_name('assessor.pub')}"]) == 2
    assert "altered" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_it_is_verified_without_a_rating_too(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With ``gpuassay verify``, as a plan is: 0 only if each key has signed this text."""
    words = ["verify", str(file), f"--key={file.with_name('assessor.pub')}"]
    assert cli.main(words) == 1
    assert "nobody has signed it" in capsys.readouterr().out
    sign(file, file.with_name("assessor"))
    assert cli.main(words) == 0
    assert cli.main(["verify", str(file)]) == 1
    assert cli.main(["verify", str(file), f"--key={file.with_name('stranger.pub')}"]) == 1
    assert f"not signed by the key {keyid(file, 'stranger')}" in capsys.readouterr().out


def test_what_is_no_assessors_file_is_not_signed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A slip in it, a key that is none, and a key without a file are told in words, with exit status 2."""
    file.write_text(TEXT.replace("at_most_ribbon", "at_least_gold"))
    assert cli.main(["sign", str(file), f"--key={file.with_name('assessor')}"]) == 2
    assert "verdict" in capsys.readouterr().err
    assert not beside(file).exists()
    file.write_text(TEXT)
    sign(file, file.with_name("assessor"))
    words = ["rate", str(build("h200-measured")), f"--key={file}"]
    assert cli.main([*words, f"--assessor={file}"]) == 2
    assert "expected a public key" in capsys.readouterr().err
    assert cli.main(words) == 2
    assert "of --assessor" in capsys.readouterr().err


@cache
def judged() -> Mapping[str, Any]:
    """Judge a cluster once."""
    return judge(build("h200-measured")).results


def rated(file: Path, *names: str) -> dict[str, Any]:
    """Rate that cluster with the file."""
    place, results = build("h200-measured"), judged()
    assessment = replace(load_assessment(file, "h200-measured"), signature=stands(file, *names))
    chosen = plan([read_source(place, catalog())])
    return rating(chosen, [results], results, catalog().tiers, assessment)


@pytest.mark.parametrize("word", ["signed", "unsigned", "unverified", "wrong key"])
def test_it_lowers_however_it_is_signed_and_says_how(file: Path, word: str) -> None:
    """To lose an envelope never raises a tier; page, terminal and podium bear the stamp, or the key."""
    if word != "unsigned":
        sign(file, file.with_name("assessor"))
    asked = {"signed": ["assessor"], "wrong key": ["stranger"]}.get(word, [])
    found = rated(file, *asked)
    assert found["assessor"]["signature"] == word
    assert found["rated"] == {"state": "won", "tier": "ribbon", "lowered": True}
    page, said = rating_page(found), "\n".join(lines(found))
    board = podium([found])
    stamped = [word.upper() in said, f"<strong>{word.upper()}</strong>" in page]
    stamped += [escape(text) in podium_page(board) for text in board["clusters"][0]["stamps"] if word in text]
    if word == "signed":
        assert stamped == [False, False]
        assert found["assessor"]["signed_by"] == [keyid(file, "assessor")]
        assert f"signed by the key <code>{keyid(file, 'assessor')}</code>" in page
    else:
        assert stamped == [True, True, True]


def test_a_rating_without_key_needs_no_cryptography(file: Path) -> None:
    """A signed file is read where the extra is absent, as unverified; with a key it says what to install."""
    sign(file, file.with_name("assessor"))
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['cryptography', 'securesystemslib', 'google']))\n"
        "from pathlib import Path\nfrom gpuassay.rating import command\n"
        "from gpuassay.signing.assessment import standing\n"
        "path, digest, *keys = sys.argv[1:]\nprint(standing(Path(path), digest, list(map(Path, keys))).word)"
    )
    words = [sys.executable, "-c", code, str(file), load_assessment(file, None).sha256]
    read = subprocess.run(words, capture_output=True, text=True, check=True)
    assert read.stdout == "unverified\n"
    asked = subprocess.run(
        [*words, str(file.with_name("assessor.pub"))], capture_output=True, text=True, check=False
    )
    assert asked.returncode != 0
    assert "pip install 'gpuassay[signing]'" in asked.stderr
