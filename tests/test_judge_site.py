"""The site file: pools, outages, waivers and changed limits, and where it says a mistake is."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from gpuassay.judge.catalog import Catalog, load_catalog
from gpuassay.judge.config import ConfigError
from gpuassay.judge.names import MOST_NAMES, expand, natural
from gpuassay.judge.site import Site, load_site, undeclared
from gpuassay.judge.verdict import Verdict
from judge_tables import catalog, changed, told

ROOT = Path(__file__).parents[1]
SITE = """
[cluster]
name = "here"
provider = "somebody"

[[pool]]
name = "b200"
nodes = "gpu[2,10,1]"
has = ["gpu", "roce"]
accelerator = "b200"
gpus = 8
ports = "mlx5_[0-3]"
contracted = 2
spares = 1
racks = 4

[[pool]]
nodes = "login1"

[limits."audit.health.row_remaps"]
pending = { is = false, else = "warn" }
banks_exhausted = { fail_above = 0 }

[limits."perf.gemm.bf16"]
tflops = { fail_below = 0.95, of = "accelerator.tflops" }

[[waiver]]
check = "audit.health.row_remaps"
where = "gpu[1-2],gpu10/gpu5"
until = 2026-11-30
reason = "agreed"

[[waiver]]
check = "perf.gemm.bf16"
where = "*"
until = 2026-12-31
reason = "firmware"

[[out]]
nodes = "gpu10"
until = 2026-11-30
reason = "broken"

[[out]]
nodes = "login1"
reason = "rebuilt"
"""


@pytest.fixture
def tables(tmp_path: Path) -> Catalog:
    """Read sound tables."""
    return catalog(tmp_path)


def site(tables: Catalog, folder: Path, text: str = SITE) -> Site:
    """Write a site file and read it."""
    (folder / "site.toml").write_text(text, encoding="utf-8")
    return load_site(folder / "site.toml", tables)


def test_pools(tables: Catalog, tmp_path: Path) -> None:
    """Pools hold what was bought; nodes come in natural order and know their pool."""
    here = site(tables, tmp_path)
    assert (here.declared, here.cluster, here.provider) == (True, "here", "somebody")
    assert here.nodes == ("gpu1", "gpu2", "gpu10", "login1")
    b200 = here.pool_of("gpu10")
    assert b200 is here.pools[0]
    assert (b200.name, b200.has) == ("b200", ("gpu", "roce"))
    assert b200.nodes == {"gpu1", "gpu2", "gpu10"}
    assert (b200.accelerator, b200.gpus, b200.contracted, b200.spares) == ("b200", 8, 2, 1)
    assert b200.ports == ("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3")
    assert here.pool_of("gpu3") is None


def test_hand_over(tables: Catalog, tmp_path: Path) -> None:
    """A moment of any zone is read as the same moment, may be left out, and is part of the digest."""
    cluster = '[cluster]\nname = "here"\n'
    berlin, utc, later = (
        site(tables, tmp_path, changed(SITE, cluster, f"{cluster}handed_over = {time}\n"))
        for time in ("2026-11-28T13:00:00+01:00", "2026-11-28T12:00:00Z", "2026-11-28T12:00:01Z")
    )
    assert berlin.handed_over == utc.handed_over == datetime(2026, 11, 28, 12, tzinfo=UTC)
    without = site(tables, tmp_path)
    assert without.handed_over is None
    assert len({utc.digest, later.digest, without.digest}) == 3


def test_contract(tables: Catalog, tmp_path: Path) -> None:
    """The contract names the pool's counts and what limits ask for; the rest is undeclared."""
    b200, login = site(tables, tmp_path).pools
    counts = {"gpus": 8, "contracted": 2, "spares": 1, "ports": 4, "racks": 4}
    assert b200.contract == {**counts, "accelerator": "b200"}
    assert (b200.contracted_value("racks"), login.contracted_value("racks")) == (4, None)
    assert [b200.declared_count(domain) for domain in ("gpu", "port", "node")] == [8, 4, None]
    assert login.declared_count("gpu") is None
    assert login.name == "login1"


def test_out_of_service(tables: Catalog, tmp_path: Path) -> None:
    """An outage lasts through its last day; an expired one is listed, and its nodes are in service."""
    here = site(tables, tmp_path)
    assert here.out_nodes == {"gpu10", "login1"}
    assert here.at(date(2026, 11, 30)).out_nodes == {"gpu10", "login1"}
    later = here.at(date(2026, 12, 1))
    assert later.out_nodes == {"login1"}
    assert later.outs[0].document() == {
        "where": "gpu10",
        "until": "2026-11-30",
        "reason": "broken",
        "expired": True,
        "source": "site file",
    }
    assert later.outs[1].document()["until"] is None


@pytest.mark.parametrize(
    ("check", "where", "reason"),
    [
        ("audit.health.row_remaps", "gpu1", "agreed"),
        ("audit.health.row_remaps", "gpu1/gpu7", "agreed"),
        ("audit.health.row_remaps", "gpu10/gpu5", "agreed"),
        ("audit.health.row_remaps", "gpu10/gpu5/bank1", "agreed"),
        ("audit.health.row_remaps", "gpu10/gpu50", None),
        ("audit.health.row_remaps", "gpu10", None),
        ("audit.health.row_remaps", "gpu100", None),
        ("audit.versions.driver", "gpu1", None),
        ("perf.gemm.bf16", "gpu10/gpu0", "firmware"),
        ("perf.gemm.bf16", "", "firmware"),
    ],
)
def test_waiver_covers(tables: Catalog, tmp_path: Path, check: str, where: str, reason: str | None) -> None:
    """A waiver covers the places it names and what is in them, of its own check only."""
    waiver = site(tables, tmp_path).waiver_for(check, where)
    assert (waiver.reason if waiver else None) == reason


def test_waiver_expires(tables: Catalog, tmp_path: Path) -> None:
    """The day after its last, a waiver is not in force; it is listed, and found as what it was."""
    last, later = (
        site(tables, tmp_path).at(date(2026, 11, 30)),
        site(tables, tmp_path).at(date(2026, 12, 1)),
    )
    place = ("audit.health.row_remaps", "gpu1/gpu0")
    assert last.waiver_for(*place) == last.waivers[0]
    assert last.expired_waiver_for(*place) is None
    assert later.waiver_for(*place) is None
    assert later.expired_waiver_for(*place) == later.all_waivers[0]
    assert [waiver.reason for waiver in later.waivers] == ["firmware"]
    assert later.all_waivers[0].document() == {
        "check": "audit.health.row_remaps",
        "where": "gpu[1-2],gpu10/gpu5",
        "until": "2026-11-30",
        "reason": "agreed",
        "expired": True,
    }


def test_limits(tables: Catalog, tmp_path: Path) -> None:
    """A site's limits replace the catalogue's, metric by metric; the unit stays, and each change is named."""
    here = site(tables, tmp_path)
    limits = here.effective("audit.health.row_remaps")
    assert list(limits) == ["pending", "failed", "banks_exhausted"]
    assert limits["pending"].grade(value=True).verdict is Verdict.WARN
    assert limits["failed"].grade(value=True).verdict is Verdict.FAIL
    assert limits["banks_exhausted"].grade(1).reason == "is 1 banks, fails above 0"
    assert here.effective("audit.versions.driver") == tables.checks["audit.versions.driver"].limits
    assert [change.document() for change in here.relaxed] == [
        {
            "check": "audit.health.row_remaps",
            "metric": "pending",
            "from": "is false",
            "to": "is false, else warn",
        },
        {
            "check": "perf.gemm.bf16",
            "metric": "tflops",
            "from": "fail below 0.90, no platinum below 0.98 of accelerator.tflops",
            "to": "fail below 0.95 of accelerator.tflops",
        },
    ]
    assert [(change.metric, change.new) for change in here.tightened] == [
        ("banks_exhausted", "fail above 0 banks")
    ]


def test_effective_thresholds(tables: Catalog, tmp_path: Path) -> None:
    """The thresholds as they hold here can be read back, and a site without limits judges by them alike."""
    here = site(tables, tmp_path)
    (tmp_path / "effective.toml").write_text(here.effective_toml, encoding="utf-8")
    again = load_catalog(tmp_path / "effective.toml", tmp_path / "advisories.toml")
    assert {check: again.checks[check].limits for check in again.checks} == {
        check: here.effective(check) for check in tables.checks
    }
    assert undeclared(tables).effective_toml == undeclared(tables).at(date.max).effective_toml
    assert tables.document["audit"]["health"]["row_remaps"]["pending"] == {"is": False}


def test_undeclared(tables: Catalog) -> None:
    """Without a site file nothing is declared, and the catalogue's limits hold."""
    nothing = undeclared(tables).at(date(2026, 11, 30))
    assert (nothing.declared, nothing.nodes, nothing.pools, nothing.out_nodes) == (False, (), (), frozenset())
    assert nothing.pool_of("gpu1") is None
    assert nothing.waiver_for("audit.health.row_remaps", "gpu1") is None
    assert (nothing.relaxed, nothing.tightened) == ((), ())
    assert nothing.effective("audit.health.row_remaps") == tables.checks["audit.health.row_remaps"].limits


def test_digest(tables: Catalog, tmp_path: Path) -> None:
    """Comments leave the digest alone, a number does not."""
    here = site(tables, tmp_path)
    assert site(tables, tmp_path, f"# bought in spring\n{SITE}").digest == here.digest
    assert site(tables, tmp_path, changed(SITE, "gpus = 8", "gpus = 4")).digest != here.digest


MISTAKES = [
    (
        "contracted = 2",
        "contracted = 0",
        "[[pool]] 1 contracted: expected a whole number, 1 or more; found 0",
    ),
    ('name = "here"\n', "", "[cluster] name: is missing; expected a text in quotes"),
    (
        'provider = "somebody"',
        'povider = "somebody"',
        '[cluster] povider: unknown; *did you mean "provider"?',
    ),
    ("[cluster]", "[clutser]", 'clutser: unknown; expected one of cluster, *did you mean "cluster"?'),
    ('nodes = "gpu[2,10,1]"\n', "", "[[pool]] 1 nodes: is missing; expected nodes such as gpu[001-004]"),
    ("gpu[2,10,1]", "gpu[2,10", "[[pool]] 1 nodes: expected nodes such as *missing bracket"),
    ("gpu[2,10,1]", "gpu[3-1]", "[[pool]] 1 nodes: expected nodes such as"),
    ("gpu[2,10,1]", "@gpus", "[[pool]] 1 nodes: *'@gpus' is no name"),
    ("gpu[2,10,1]", "gpu1/gpu0", "[[pool]] 1 nodes: *is a place in a node"),
    ("gpu[2,10,1]", "gpu[1-999999999]", "[[pool]] 1 nodes: *more than"),
    ("gpu[2,10,1]", "r[1-1000]n[1-1000]", "[[pool]] 1 nodes: *1000000 names"),
    ('nodes = "login1"\n\n', 'nodes = "login1,gpu[1-9]"\n', "[[pool]] 2 nodes: *b200 has gpu1, gpu2 too"),
    (
        'nodes = "login1"\n\n',
        'nodes = "login1"\nname = "b200"\n',
        "[[pool]] 2 name: expected a name of its own",
    ),
    ('has = ["gpu", "roce"]', 'has = ["gpu", "rocee"]', '[[pool]] 1 has: *did you mean "roce"?'),
    ('has = ["gpu", "roce"]', 'has = ["roce"]', '[[pool]] 1 has: expected "gpu" too'),
    (
        'accelerator = "b200"',
        'accelerator = "b300"',
        '[[pool]] 1 accelerator: expected one of b200, gh200*"b200"?',
    ),
    ("gpus = 8", 'gpus = "8"', '[[pool]] 1 gpus: expected a whole number, 0 or more; found "8"'),
    ("gpus = 8", "gpus = 8.0", "[[pool]] 1 gpus: expected a whole number"),
    ("gpus = 8", "gpsu = 8", '[[pool]] 1 gpsu: unknown; *did you mean "gpus"?'),
    ("racks = 4", "racks = [4]", "[[pool]] 1 racks: expected a text, a finite number, true or false"),
    ("ports = ", "port = ", '[[pool]] 1 port: unknown; *did you mean "ports"?'),
    (
        '[limits."perf.gemm.bf16"]',
        '[limits."perf.gemm.fp16"]',
        '[limits] perf.gemm.fp16: *no such check; did you mean "perf.gemm.bf16"?',
    ),
    (
        '[limits."perf.gemm.bf16"]',
        "[limits.perf.gemm.bf16]",
        "[limits] perf: expected the id of a check in quotes",
    ),
    (
        "tflops = {",
        "tflop = {",
        '[limits."perf.gemm.bf16"] tflop: *expected one of tflops; did you mean "tflops"?',
    ),
    (
        '"accelerator.tflops"',
        '"accelerator.tflop"',
        '[limits."perf.gemm.bf16"] tflops: no [accelerator] table has',
    ),
    (
        '"accelerator.tflops"',
        '"contract.tflops"',
        '[limits."perf.gemm.bf16"] tflops: no pool can declare tflops',
    ),
    (
        "fail_above = 0",
        'fail_above = 0, unit = "rows"',
        '[limits."audit.health.row_remaps"] banks_exhausted: *rows',
    ),
    (
        "fail_above = 0",
        "fail_over = 0",
        '[limits."audit.health.row_remaps"] banks_exhausted: expected a limit',
    ),
    (
        "{ fail_above = 0 }",
        "0",
        '[limits."audit.health.row_remaps"] banks_exhausted: expected a limit such as',
    ),
    (
        'check = "perf.gemm.bf16"',
        'check = "perf.gem.bf16"',
        '[[waiver]] 2 check: *did you mean "perf.gemm.bf16"?',
    ),
    ('where = "*"\n', "", "[[waiver]] 2 where: is missing; expected places such as"),
    ('where = "*"', 'where = "gpu*"', "[[waiver]] 2 where: *' is no name"),
    ("until = 2026-12-31\n", "", "[[waiver]] 2 until: is missing; expected a date"),
    ("until = 2026-12-31", 'until = "soon"', "[[waiver]] 2 until: expected a date such as 2027-01-31"),
    ('reason = "firmware"\n', "", "[[waiver]] 2 reason: is missing"),
    ('reason = "firmware"', 'reason = ""', "[[waiver]] 2 reason: expected a text in quotes"),
    ('nodes = "gpu10"', 'nodes = "gpu[10-15]"', "[[out]] 1 nodes: *in none: gpu11, gpu12, gpu13 and 2 more"),
    ('reason = "broken"\n', "", "[[out]] 1 reason: is missing"),
    ('reason = "broken"', 'raeson = "broken"', '[[out]] 1 raeson: unknown; *did you mean "reason"?'),
    (
        "[cluster]",
        "[cluster]\nhanded_over = 2026-11-28",
        "[cluster] handed_over: expected a time with its zone such as 2026-11-28T12:00:00+01:00, *found",
    ),
    (
        "[cluster]",
        "[cluster]\nhanded_over = 2026-11-28T12:00:00",
        "[cluster] handed_over: expected a time with its zone such as *; it names no time zone",
    ),
    (
        "[cluster]",
        '[cluster]\nhanded_over = "2026-11-28T12:00:00Z"',
        "[cluster] handed_over: expected a time with its zone such as *, without quotes; found",
    ),
    (
        "[cluster]",
        "[cluster]\nhanded_over = 0001-01-01T00:00:00+01:00",
        "[cluster] handed_over: expected a time with its zone such as",
    ),
    ("[cluster]", "waiver = 3\n[cluster]", "is not TOML: "),
    (
        "[cluster]",
        "[slrm]\n[cluster]",
        'slrm: unknown; expected one of cluster, pool, limits, waiver, out, *; did you mean "slurm"?',
    ),
]


@pytest.mark.parametrize(("old", "new", "expected"), MISTAKES)
def test_mistakes(tables: Catalog, tmp_path: Path, old: str, new: str, expected: str) -> None:
    """Each mistake is told on one line that names the file, the table, the key and what was expected."""
    with pytest.raises(ConfigError) as caught:
        site(tables, tmp_path, changed(SITE, old, new))
    assert told(caught.value, f"site.toml: {expected}")


@pytest.mark.parametrize(
    "option", ["StrictHostKeyChecking=no", "stricthostkeychecking accept-new", "ForwardAgent = yes"]
)
def test_what_ssh_may_not_be_told(tables: Catalog, tmp_path: Path, option: str) -> None:
    """Host keys are checked and the agent stays here, whatever a site file would have; it says why."""
    with pytest.raises(ConfigError, match=r"\[ssh\] options: \w+ cannot be set: (host keys|no node gets)"):
        site(tables, tmp_path, f'{SITE}\n[ssh]\noptions = ["{option}"]\n')


def test_no_pool(tables: Catalog, tmp_path: Path) -> None:
    """A site file that declares nothing is a mistake, and so is a list where tables belong."""
    with pytest.raises(ConfigError, match=r"site.toml: pool: is missing; expected at least one \[\[pool\]\]"):
        site(tables, tmp_path, '[cluster]\nname = "x"\n')
    with pytest.raises(ConfigError, match=r"site.toml: out: expected a list of tables, found 3"):
        site(tables, tmp_path, 'out = 3\n[cluster]\nname = "x"\n')


def test_example() -> None:
    """The example of the documentation is sound by the tables that are published with it."""
    tables = load_catalog(ROOT / "thresholds.toml", ROOT / "advisories.toml")
    example = load_site(ROOT / "docs" / "site.toml", tables)
    assert example.nodes[:2] == ("gpu001", "gpu002")
    assert example.out_nodes == {"gpu004"}
    assert (len(example.tightened), len(example.relaxed)) == (1, 0)
    assert example.waiver_for("audit.health.row_remaps", "gpu003/gpu5") is not None


def test_natural_order() -> None:
    """Numbers in names count as numbers, and the order of equal ones does not depend on chance."""
    assert sorted(["gpu10", "gpu9", "gpu1", "gpu01", "a²"], key=natural) == [
        "a²",
        "gpu01",
        "gpu1",
        "gpu9",
        "gpu10",
    ]


def test_expand() -> None:
    """Node sets keep zeros and steps and lose repetitions; one that is far too large is refused."""
    assert expand("gpu[001-005/2],gpu001") == ("gpu001", "gpu003", "gpu005")
    with pytest.raises(ValueError, match=str(MOST_NAMES)):
        expand(f"gpu[0-{10**12}]")
