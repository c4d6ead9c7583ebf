"""What is signed is verified offline, and whatever does not match is named."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuassay import cli
from gpuassay.evidence.run import CERTIFICATE, SIGNED, RunFolder
from gpuassay.evidence.sums import write_sums
from gpuassay.report.files import write_reports
from gpuassay.report.rebuilt import rebuild
from gpuassay.signing import keys, statement
from gpuassay.signing.envelope import SigningError, read_envelope
from plugging import ROOT
from recorded.rated import moved
from signed import DAY, Signed, run_with_recording, signed

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    """Give a signed run, to be copied before it is changed."""
    return signed(tmp_path_factory)


def edited(path: Path, change: Callable[[Any], object]) -> None:
    """Change a JSON file as somebody would who knows how it is written."""
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n")


def test_an_untouched_run_matches(whole: Signed) -> None:
    """Nothing is said of it, nor of any one of its files."""
    assert whole.problems() == []
    assert whole.problems(place=whole.run / CERTIFICATE) == []
    assert whole.problems(place=whole.run / "recording" / "recording.toml") == []
    assert whole.problems(place=whole.run / SIGNED) == []


def test_the_statement_is_in_totos(whole: Signed) -> None:
    """A test result about every file of the run, page and sums included, by their SHA-256."""
    said = statement.read(read_envelope(whole.run / SIGNED, statement.PAYLOAD_TYPE), whole.run / SIGNED)
    assert said["_type"] == "https://in-toto.io/Statement/v1"
    assert said["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    files = {path.relative_to(whole.run).as_posix() for path in whole.run.rglob("*") if path.is_file()}
    assert {subject["name"] for subject in said["subject"]} == files - {SIGNED}
    assert said["predicate"]["result"] == "FAILED"
    assert said["predicate"]["failedTests"] == ["audit.a.d"]
    assert said["predicate"]["passedTests"] == ["audit.a.b", "audit.a.c"]
    assert said["predicate"]["gpuassay"]["validUntil"] == "2027-02-28"


@settings(max_examples=60)
@given(st.data())
def test_no_byte_can_be_flipped(whole: Signed, data: st.DataObject) -> None:
    """Any other byte at any place of any file of a run: verify fails, and names that file."""
    names = sorted(path.relative_to(whole.run).as_posix() for path in whole.run.rglob("*") if path.is_file())
    name = data.draw(st.sampled_from(names))
    content = bytearray((whole.run / name).read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    with tempfile.TemporaryDirectory() as folder:
        spoiled = whole.copy(Path(folder) / "run")
        (spoiled.run / name).write_bytes(content)
        assert any(name in problem for problem in spoiled.problems()), name


def test_no_file_is_outside_the_signature(whole: Signed, tmp_path: Path) -> None:
    """Of each file the first, the middle and the last byte; each file gone, or with another's content."""
    spoiled = whole.copy(tmp_path / "run")
    names = sorted(path.relative_to(whole.run).as_posix() for path in whole.run.rglob("*") if path.is_file())
    for name, other in zip(names, [*names[1:], names[0]], strict=True):
        content = (whole.run / name).read_bytes()
        changed = [bytearray(content) for _ in range(3)]
        for one, place in zip(changed, (0, len(content) // 2, len(content) - 1), strict=True):
            one[place] ^= 1
        for instead in {*map(bytes, changed), (whole.run / other).read_bytes()} - {content}:
            (spoiled.run / name).write_bytes(instead)
            assert any(name in problem for problem in spoiled.problems()), name
        (spoiled.run / name).unlink()
        assert any(name in problem for problem in spoiled.problems()), name
        (spoiled.run / name).write_bytes(content)
    assert spoiled.problems() == []


def test_no_key_of_the_results_can_be_renamed(whole: Signed, tmp_path: Path) -> None:
    """A page that cannot even be rendered from what is left is a finding too, not the end."""
    spoiled = whole.copy(tmp_path / "run")
    text = (whole.run / "results.json").read_text()
    names = sorted(set(re.findall(r'"(\w+)":', text)))
    assert len(names) > 40
    for name in names:
        (spoiled.run / "results.json").write_text(text.replace(f'"{name}":', f'"{name}x":'))
        assert "results.json: not as it was signed" in spoiled.problems(), name


def test_swapped_added_and_removed_files_are_named(whole: Signed, tmp_path: Path) -> None:
    """Two files in each other's place, one more, one less, and a link in the place of one."""
    spoiled = whole.copy(tmp_path / "run")
    nodes = sorted((spoiled.run / "recording" / "nodes").iterdir())
    first, second = nodes[0].read_bytes(), nodes[1].read_bytes()
    nodes[0].write_bytes(second)
    nodes[1].write_bytes(first)
    (spoiled.run / "note.txt").write_text("all is well")
    (spoiled.run / "junit.xml").unlink()
    problems = spoiled.problems()
    for node in nodes[:2]:
        assert f"recording/nodes/{node.name}: not as it was signed" in problems
    assert "note.txt: was added after the signature" in problems
    assert "junit.xml: is missing" in problems
    (spoiled.run / "junit.xml").symlink_to(whole.run / "junit.xml")
    assert any("junit.xml: not a regular file" in problem for problem in spoiled.problems())


def resigned(one: Signed, change: Callable[[Path], object]) -> list[str]:
    """Change a run, and let the holder of the key write sums, page and signature anew, without our checks."""
    change(one.run)
    results = json.loads((one.run / "results.json").read_text())
    write_sums(one.run, (CERTIFICATE, SIGNED))
    validity = {"validFrom": "2026-11-30", "validUntil": "2027-02-28"}
    files = statement_files(one.run)
    keys.sign(statement.make(files, results, validity), keys.signer(one.key)).write(one.run / SIGNED)
    return one.problems()


def statement_files(run: Path) -> dict[str, str]:
    """Hash what a statement is about."""
    from gpuassay.signing.content import digests  # noqa: PLC0415 - beside its only use

    return digests(run, but=(SIGNED,))


def test_an_edited_verdict_is_named_even_under_a_new_signature(whole: Signed, tmp_path: Path) -> None:
    """The journal says what the check came to, whatever the results say now."""

    def better(run: Path) -> None:
        edited(run / "results.json", lambda found: found["checks"]["audit.a.d"].update(verdict="pass"))

    problems = resigned(whole.copy(tmp_path / "run"), better)
    assert "results.json: audit.a.d is pass; journal.jsonl gives fail" in problems
    assert f"{CERTIFICATE}: not the page that results.json gives" in problems


def test_a_removed_check_is_named_even_under_a_new_signature(whole: Signed, tmp_path: Path) -> None:
    """From the results: the journal has it. From both: the thresholds have it."""

    def from_results(run: Path) -> None:
        edited(run / "results.json", lambda found: found["checks"].pop("audit.a.d"))

    def from_both(run: Path) -> None:
        from_results(run)
        lines = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
        for line in lines:
            line.get("context", {}).get("checks", {}).pop("audit.a.d", None)
        kept = [line for line in lines if line.get("id") != "audit.a.d"]
        (run / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept))

    gone = "results.json: audit.a.d was removed; journal.jsonl says otherwise"
    assert gone in resigned(whole.copy(tmp_path / "one"), from_results)
    both = resigned(whole.copy(tmp_path / "two"), from_both)
    assert gone not in both
    assert "journal.jsonl: audit.a.d is missing" in both


def test_a_verdict_edited_in_the_journal_too_is_named_by_the_recording(
    whole: Signed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever has the key can make results and journal agree; the recording, judged again, does not."""
    recorded = ROOT / "fixtures" / "recorded" / "hgx-b200-4" / "recording"
    run_of(recorded, tmp_path / "run", "tests_audit/test_health.py")
    one = Signed(tmp_path / "run", whole.key)
    one.sign()
    verify = ["verify", str(one.run), f"--key={one.public}", "--on=2026-12-01", "--again"]
    assert cli.main(verify) == 0

    changed = "audit.health.row_remaps"
    lines = [json.loads(line) for line in (one.run / "journal.jsonl").read_text().splitlines()]
    for line in lines:
        if line.get("id") == changed:
            line["result"].update(verdict="warn")
    (one.run / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    write_reports(RunFolder(one.run), rebuild(one.run / "journal.jsonl")[0])
    RunFolder(one.run).seal()
    one.sign()
    assert one.problems() == []
    capsys.readouterr()
    assert cli.main(verify) == 1
    assert f"{changed} is warn; the recording gives pass" in capsys.readouterr().out


def test_a_run_that_was_compared_is_judged_again_with_the_same_earlier_one(
    whole: Signed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the hash that the results name: without one it is an error, another or an altered one is named."""
    recorded = ROOT / "fixtures" / "recorded" / "hgx-b200-4" / "recording"
    earlier = tmp_path / "earlier"
    shutil.copytree(recorded, earlier)
    moved(earlier, timedelta(days=-7))
    one = Signed(
        run_of(recorded, tmp_path / "run", f"--earlier={earlier}", "tests_audit/test_health.py"), whole.key
    )
    assert json.loads((one.run / "results.json").read_text())["earlier"]
    one.sign()
    verify = ["verify", str(one.run), f"--key={one.public}", "--on=2026-12-01"]
    assert cli.main([*verify, "--again", f"--earlier={earlier}"]) == 0
    assert cli.main([*verify, "--again"]) == 2
    assert "name it with --earlier=DIR" in capsys.readouterr().err
    assert cli.main([*verify, f"--earlier={earlier}"]) == 2
    assert cli.main([*verify, "--again", f"--earlier={recorded}"]) == 1
    assert f"{recorded}: not the earlier recording" in capsys.readouterr().out
    moved(earlier, timedelta(days=-1))
    assert cli.main([*verify, "--again", f"--earlier={earlier}"]) == 1


def run_of(recorded: Path, run: Path, *words: str) -> Path:
    """Judge a recording in a process of its own, and lay it into the run's folder, as a live run does."""
    code = "import sys; from gpuassay.cli import main; sys.exit(main(sys.argv[1:]))"
    asked = ["run", f"--target=recording:{recorded}", f"--run-dir={run}", *words]
    subprocess.run([sys.executable, "-c", code, *asked], check=False, capture_output=True)
    shutil.copytree(recorded, run / "recording")
    RunFolder(run).seal()
    return run


def test_a_run_without_its_recording_cannot_be_judged_again(whole: Signed, tmp_path: Path) -> None:
    """It is an error that says so, not a run that matches."""
    bare = whole.copy(tmp_path / "run")
    shutil.rmtree(bare.run / "recording")
    RunFolder(bare.run).seal()
    bare.sign()
    assert cli.main(["verify", str(bare.run), f"--key={bare.public}", "--on=2026-12-01"]) == 0
    assert cli.main(["verify", str(bare.run), f"--key={bare.public}", "--on=2026-12-01", "--again"]) == 2


def test_an_edited_tier_is_named(whole: Signed, tmp_path: Path) -> None:
    """What is not a check is held against the journal too."""

    def better(run: Path) -> None:
        edited(run / "results.json", lambda found: found["tier"].update(state="won", won="platinum"))

    assert "results.json: tier is not what journal.jsonl gives" in resigned(
        whole.copy(tmp_path / "r"), better
    )


def test_an_expired_certificate_is_named(whole: Signed) -> None:
    """The last day still counts; the day after does not."""
    assert whole.problems(on=DAY.replace(year=2027, month=2, day=28)) == []
    late = whole.problems(on=DAY.replace(year=2027, month=3, day=1))
    assert late == [f"{SIGNED}: expired: it was valid until 2027-02-28, and this is 2027-03-01"]


def test_another_key_is_named(whole: Signed, tmp_path: Path) -> None:
    """A key that has not signed, beside one that has; and no key at all is no verification."""
    _, keyid = keys.generate(tmp_path / "other")
    other = tmp_path / "other.pub"
    assert whole.problems(whole.public, other) == [f"{SIGNED}: not signed by the key {keyid}"]
    assert cli.main(["verify", str(whole.run), "--on=2026-12-01"]) == 1


@pytest.mark.parametrize(
    "content", ["", "no key", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"]
)
def test_a_missing_or_broken_key_is_an_error(
    whole: Signed, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    """Exit status 2 and one line that names the file, to sign and to verify."""
    for words in (["verify", str(whole.run)], ["sign", str(whole.run)]):
        assert cli.main([*words, f"--key={tmp_path / 'nowhere'}"]) == 2
        assert f"{tmp_path / 'nowhere'}: No such file" in capsys.readouterr().err
        (tmp_path / "broken").write_text(content)
        assert cli.main([*words, f"--key={tmp_path / 'broken'}"]) == 2
        assert f"{tmp_path / 'broken'}: expected a" in capsys.readouterr().err
    assert cli.main(["sign", str(whole.run), f"--key={whole.public}"]) == 2  # the public one signs nothing


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("results.json", "{"),
        ("results.json", "[]"),
        ("results.json", '{"checks": {}}'),
        ("journal.jsonl", "{"),
        ("thresholds.effective.toml", "[["),
        ("replies.toml", "[["),
        (SIGNED, "{"),
        (CERTIFICATE, ""),
    ],
)
def test_broken_json_and_toml_are_named(whole: Signed, tmp_path: Path, name: str, content: str) -> None:
    """No file of a run, whatever it holds, ends in anything but a problem that names it."""
    spoiled = whole.copy(tmp_path / "run")
    (spoiled.run / name).write_text(content)
    assert any(name in problem for problem in spoiled.problems())


def test_nothing_changed_is_signed(whole: Signed, tmp_path: Path) -> None:
    """A run that is not as it was sealed, or has no seal, is refused before anything is written."""
    changed = whole.copy(tmp_path / "run")
    (changed.run / SIGNED).unlink()
    (changed.run / "junit.xml").write_text("<testsuites/>")
    with pytest.raises(SigningError, match=r"junit\.xml is not as it was sealed"):
        changed.sign()
    (changed.run / "SHA256SUMS").unlink()
    with pytest.raises(SigningError, match="it has no SHA256SUMS"):
        changed.sign()
    edited(changed.run / "results.json", lambda found: found["checks"]["audit.a.d"].update(verdict="pass"))
    RunFolder(changed.run).seal()
    with pytest.raises(SigningError, match=r"audit\.a\.d is pass; journal\.jsonl gives fail"):
        changed.sign()
    assert not (changed.run / SIGNED).exists()


def test_a_run_that_nobody_signed(whole: Signed, tmp_path: Path) -> None:
    """It is said, and what differs from its sums beside it; what is no run at all is an error."""
    bare = whole.copy(tmp_path / "run")
    (bare.run / SIGNED).unlink()
    (bare.run / "junit.xml").write_text("<testsuites/>")
    assert [SIGNED in bare.problems()[0], "junit.xml" in bare.problems()[1]] == [True, True]
    with pytest.raises(SigningError, match="no such file or folder"):
        bare.problems(place=tmp_path / "nowhere")


def test_a_key_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The private key is its owner's alone to read; a second call leaves both as they are."""
    assert cli.main(["keygen", str(tmp_path / "key")]) == 0
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    before = (tmp_path / "key").read_bytes(), (tmp_path / "key.pub").read_bytes()
    assert cli.main(["keygen", str(tmp_path / "key")]) == 2
    assert "needs a name of its own" in capsys.readouterr().err
    (tmp_path / "key.pub").unlink()
    assert cli.main(["keygen", str(tmp_path / "key")]) == 2
    assert ((tmp_path / "key").read_bytes(), (tmp_path / "key.pub").exists()) == (before[0], False)


def test_replies_stand_beside_the_findings(whole: Signed, tmp_path: Path) -> None:
    """An answer is on the page and signed with it; a finding without one has room for it."""
    replies = tmp_path / "r.toml"
    replies.write_text(
        '[[reply]]\ncheck = "audit.a.d"\nby = "Example Cloud"\ndate = 2026-12-01\ntext = "Mended <today>."\n'
        '[[reply]]\ncheck = "audit.a.b"\nby = "Example Cloud"\ndate = 2026-12-01\ntext = "As ever."\n'
    )
    assert "No answer was given" in (whole.run / CERTIFICATE).read_text()
    answered = whole.copy(tmp_path / "run")
    answered.sign(replies=replies)
    page = (answered.run / CERTIFICATE).read_text()
    assert "Mended &lt;today&gt;." in page
    assert "As ever." in page
    assert "No answer was given" not in page
    assert answered.problems() == []


def test_a_reply_to_no_check_is_refused(
    whole: Signed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The mistake is told with its place; nothing is signed."""
    replies = tmp_path / "r.toml"
    replies.write_text('[[reply]]\ncheck = "audit.a.x"\nby = "p"\ndate = 2026-12-01\ntext = "t"\n')
    words = ["sign", str(whole.copy(tmp_path / "run").run), f"--key={whole.key}", f"--replies={replies}"]
    assert cli.main(words) == 2
    assert "r.toml: [[reply]] 1 check: the run has no check audit.a.x" in capsys.readouterr().err


def test_both_parties_sign_a_plan_and_a_run_is_held_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hash and signers come through to the results; the run carries the plan; another plan is named."""
    for name in ("tenant", "provider"):
        keys.generate(tmp_path / name)
    plan = tmp_path / "plan"
    (tmp_path / "suite").mkdir()
    run_with_recording(tmp_path / "suite")  # makes the suite whose plan it is
    shutil.rmtree(tmp_path / "suite" / "run")
    write_plan(tmp_path / "suite", plan)
    unsigned = Signed(plan, tmp_path / "tenant")
    assert len(unsigned.problems()) == 1
    for name in ("tenant", "provider"):
        assert cli.main(["sign", str(plan), f"--key={tmp_path / name}"]) == 0
    assert unsigned.problems(tmp_path / "tenant.pub", tmp_path / "provider.pub") == []
    run = Signed(run_with_recording(tmp_path / "suite", f"--plan={plan}"), tmp_path / "tenant")
    run.sign()
    assert run.problems(plan=plan) == []
    held = json.loads((run.run / "results.json").read_text())["plan"]
    assert (len(held["signed_by"]), held["differs"]) == (2, [])
    assert held["sha256"] in (run.run / CERTIFICATE).read_text()
    other = tmp_path / "other"
    write_plan(tmp_path / "suite", other, "rating")
    assert run.problems(plan=other)[0].startswith(f"another plan: {other} is ")
    assert cli.main(["verify", str(run.run), f"--plan={tmp_path / 'nowhere'}"]) == 1
    assert "nowhere" in capsys.readouterr().out


def write_plan(suite: Path, to: Path, profile: str = "acceptance") -> None:
    """Write the plan of a small suite on its recorded cluster, which has no site file."""
    from gpuassay.judge.site import undeclared  # noqa: PLC0415 - beside their only use
    from gpuassay.signing.plan import Terms  # noqa: PLC0415
    from gpuassay.suite import load_suite  # noqa: PLC0415

    site = undeclared(load_suite(suite).catalog)
    Terms.of(site, None, profile).envelope().write(to)


def test_a_run_needs_no_cryptography(tmp_path: Path) -> None:
    """Plans are read where the extra is not installed; what does need it says what to install."""
    blocked = (
        "import sys; sys.modules.update(dict.fromkeys(['cryptography', 'securesystemslib', 'google']))\n"
    )
    code = f"{blocked}import gpuassay.wiring.controller\nfrom gpuassay.cli import main\n"
    code += "sys.exit(main(sys.argv[1:]))"

    def called(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    assert called("plan", "plan.json").returncode == 0
    refused = called("keygen", "key")
    assert refused.returncode == 2
    assert "pip install 'gpuassay[signing]'" in refused.stderr
