"""The plan: the same terms give the same bytes, and a run says in what it differs from what was agreed."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay import cli
from gpuassay.report import html
from gpuassay.session import Request, context, prepare
from gpuassay.signing.envelope import Envelope, SigningError, read_envelope
from gpuassay.signing.plan import PAYLOAD_TYPE, Terms, differences, off_plan, read_plan
from plugging import ROOT
from recorded import build
from report_sample import results

if TYPE_CHECKING:
    from pathlib import Path

HGX = ROOT / "fixtures" / "recorded" / "hgx-b200-4" / "recording"
SITE = '[cluster]\nname = "here"\n\n[[pool]]\nnodes = "n[1-3]"\n'
TERMS = Terms("1", "acceptance", SITE, "[a.b.c]\nx = { is = 1 }\n", "ab")


def planned(path: Path, *words: str) -> Path:
    """Write a plan by the command."""
    assert cli.main(["plan", str(path), *words]) == 0
    return path


def test_the_same_terms_give_the_same_bytes(tmp_path: Path) -> None:
    """Two plans of one site file are one: no time, path or host is in them."""
    site = f"--site={HGX / 'site.toml'}"
    one, two = planned(tmp_path / "one", site), planned(tmp_path / "two", site)
    assert one.read_bytes() == two.read_bytes()
    payload = base64.b64decode(json.loads(one.read_text())["payload"])
    assert payload == json.dumps(
        json.loads(payload), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    ).encode("utf-8")
    assert json.loads(payload)["site"] == (HGX / "site.toml").read_text()


def test_a_plan_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A plan that somebody may have signed stays."""
    path = planned(tmp_path / "plan.json")
    before = path.read_bytes()
    assert cli.main(["plan", str(path), f"--site={HGX / 'site.toml'}"]) == 2
    assert "there already" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_a_broken_site_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is no TOML is told with its file and line, and no plan is written."""
    (tmp_path / "site.toml").write_text("[cluster\n")
    assert cli.main(["plan", str(tmp_path / "plan"), f"--site={tmp_path / 'site.toml'}"]) == 2
    assert "site.toml: is not TOML" in capsys.readouterr().err
    assert not (tmp_path / "plan").exists()


def test_a_run_as_agreed(tmp_path: Path) -> None:
    """Nothing differs, no stamp, and the hash stands in the context that results are made from."""
    plan = planned(tmp_path / "plan", f"--site={HGX / 'site.toml'}")
    session = prepare(Request(ROOT, plan=plan), HGX)
    assert context(session)["plan"] == {"sha256": read_plan(plan).digest, "signed_by": [], "differs": []}
    assert "off plan" not in dict(session.stamps)
    assert "plan" not in context(prepare(Request(ROOT), HGX))


def test_another_site_file_profile_and_thresholds(tmp_path: Path) -> None:
    """Each of what decides is named with what was agreed and what was used."""
    site = (HGX / "site.toml").read_text().replace("capacity_tb = 20", "capacity_tb = 21")
    (tmp_path / "site.toml").write_text(site)
    plan = planned(tmp_path / "plan", f"--site={tmp_path / 'site.toml'}", "--profile=rating")
    session = prepare(Request(ROOT, plan=plan), HGX)
    differs = context(session)["plan"]["differs"]
    assert differs == [
        "profile: rating was agreed, acceptance was used",
        "site: mount.0.capacity_tb: 21 was agreed, 20 was used",
    ]
    assert dict(session.stamps)["off plan"].endswith("rating was agreed, acceptance was used; and 1 more")


def test_another_hand_over(tmp_path: Path) -> None:
    """When the cluster was handed over is agreed like all of the site file."""
    site = (HGX / "site.toml").read_text()
    handed_over = "[cluster]\nhanded_over = 2026-11-28T12:00:00+01:00\n"
    (tmp_path / "site.toml").write_text(site.replace("[cluster]\n", handed_over, 1))
    plan = planned(tmp_path / "plan", f"--site={tmp_path / 'site.toml'}")
    assert context(prepare(Request(ROOT, plan=plan), HGX))["plan"]["differs"] == [
        'site: cluster.handed_over: "2026-11-28 12:00:00+01:00" was agreed, nothing was used'
    ]


def test_a_run_without_a_site_file(tmp_path: Path) -> None:
    """A plan with a site file is not met by a run without one, nor the other way round."""
    bare = planned(tmp_path / "bare")
    assert context(prepare(Request(ROOT, plan=bare), HGX))["plan"]["differs"][0] == (
        "site: no site file was agreed, and one was used"
    )
    with_site = planned(tmp_path / "site", f"--site={HGX / 'site.toml'}")
    differs = context(prepare(Request(ROOT, plan=with_site), build("undeclared")))["plan"]["differs"]
    assert differs[0] == "site: a site file was agreed, and none was used"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": "2"}, "version: 1 was agreed, 2 was used"),
        ({"thresholds": "[a.b.c]\nx = { is = 2 }\n"}, "thresholds: a.b.c.x.is: 1 was agreed, 2 was used"),
        ({"thresholds": ""}, "thresholds: a.b.c.x.is: 1 was agreed, nothing was used"),
        ({"tables": "cd"}, "tables: thresholds.toml or advisories.toml is not as agreed"),
        ({"site": SITE + "# x\n"}, "site: the same values, in other words (comments, spaces or order)"),
        ({"site": "[["}, "site: not as agreed, and one of the two is not TOML"),
    ],
)
def test_what_differs_is_said(change: dict[str, str], said: str) -> None:
    """One change gives one sentence about it and a stamp; none gives nothing."""
    used = replace(TERMS, **change)
    assert said in list(differences(TERMS, used))
    assert list(differences(TERMS, TERMS)) == []


@given(st.builds(Terms, *[st.text()] * 2, st.none() | st.text(), st.text(), st.text()))
def test_no_difference_is_missed(used: Terms) -> None:
    """Terms that are not the same are never said to be."""
    assert bool(list(differences(TERMS, used))) is (used != TERMS)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not a DSSE envelope"),
        (b"{}", "expected payload"),
        (b"[" * 100_000, "not a DSSE envelope"),
        (Envelope(b"{}", "text/plain").text, "expected a payload of application/vnd.gpuassay.plan"),
        (Envelope(b"{}", PAYLOAD_TYPE).text, "not a plan"),
        (Envelope(b'{"schema":1}', PAYLOAD_TYPE).text, "not a plan"),
        (Envelope(b"[]", PAYLOAD_TYPE).text, "not a plan"),
        (
            Envelope(json.dumps({"schema": 2, **asdict(TERMS)}).encode(), PAYLOAD_TYPE).text,
            "not a plan of schema 1",
        ),
        (Envelope(b"{}", PAYLOAD_TYPE).text + b" ", "altered"),
    ],
)
def test_what_is_no_plan_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    """Each names the file and what is wrong with it."""
    (tmp_path / "plan").write_bytes(data)
    with pytest.raises(SigningError, match=said) as caught:
        read_plan(tmp_path / "plan")
    assert str(tmp_path / "plan") in str(caught.value)


def test_no_byte_of_an_envelope_is_free(tmp_path: Path) -> None:
    """Spaces, the order of keys and unused bits of base64 included: what reads back is what was written."""
    envelope = TERMS.envelope()
    envelope.write(tmp_path / "plan")
    assert read_envelope(tmp_path / "plan", PAYLOAD_TYPE) == envelope
    (tmp_path / "plan").write_text(json.dumps(envelope.document()))
    with pytest.raises(SigningError, match="altered"):
        read_envelope(tmp_path / "plan", PAYLOAD_TYPE)


def test_reports_carry_the_plan() -> None:
    """The page shows the hash and all that differs, and says so where nothing does."""
    plan = {"sha256": "ef" * 32, "signed_by": ["a", "b"], "differs": ["profile: x was agreed, y was used"]}
    page = html.render(results(plan=plan))
    assert "ef" * 32 in page
    assert "profile: x was agreed, y was used" in page
    assert "signed by 2 parties" in page
    assert "the run is as agreed" in html.render(results(plan={**plan, "differs": []}))
    assert next(off_plan(plan))[0] == "off plan"
    assert list(off_plan({**plan, "differs": []})) == []
