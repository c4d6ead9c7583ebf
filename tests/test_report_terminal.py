"""The terminal's closing section: complete in words, inside its width, and deaf to escape sequences."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gpuassay.report import terminal, words
from report_sample import check, held, results, row, tier


def text_of(document: dict[str, object], width: int = 80) -> str:
    """Join the lines as a reader sees them without colour."""
    return "\n".join(line.text for line in terminal.lines(document, width))


def test_it_opens_with_the_tier_and_the_ceiling() -> None:
    """The first line is what everybody asks for; the next ones say why."""
    first, why, *_ = terminal.lines(results())
    assert first.text == "Not rated (ceiling: Silver)"
    assert why.text == "1 check that bronze needs was not judged."
    won = terminal.lines(results(tier=tier("won", won="gold", ceiling=None)))
    assert won[0].text == "tier won: Gold (ceiling: none)"


def test_it_says_what_holds_the_tier() -> None:
    """The first three are named with their reasons, the rest is counted."""
    against = [held("gold", f"audit.a.c{n}", "fail", f"reason {n}") for n in range(7)]
    phase = held("gold", "perf", "not_run", "no perf check was run")
    text = text_of(results({}, tier=tier(held_by={"won": against, "ceiling": [phase]})))
    assert "  not Gold: audit.a.c2, fail: reason 2\n  and for 4 more reasons, all in the report" in text
    assert "  out of reach: Gold: perf, not run: no perf check was run" in text


def test_it_says_where_the_nodes_are_and_what_that_leaves_untested() -> None:
    """The placement has its line, and a figure between nodes carries what it does not say."""
    between = check(row("n1", "fail", reason="slow"), phase="perf", placement="spine not tested")
    text = text_of(results({"perf.a.b": between}))
    assert "placement: 4 nodes are below one leaf, by Slurm's topology: spine not tested" in text
    assert "\n       spine not tested\n" in text
    assert "placement" not in text_of(results(placement=None))


def test_it_names_what_goes_back() -> None:
    """Who ends an acceptance test asks which nodes to return."""
    sick = [{"where": f"gpu00{n}", "checks": ["audit.health.row_remaps"]} for n in (3, 4)]
    assert "to return for repair: gpu[003-004]" in text_of(results(return_list=sick))


def test_verdicts_are_words() -> None:
    """Without colour, each finding still says what it is, worst first."""
    text = text_of(results())
    order = [text.index(word) for word in ("\nFAIL ", "\nERROR ", "\nWARN ", "\nUNSEEN ")]
    assert order == sorted(order)
    assert "Fix: drain the node and reset the GPU" in text
    assert "gpu003/gpu5: a remap is pending [nodes/gpu003#12]" in text


def test_it_says_what_was_not_judged() -> None:
    """Not run with its reason, unseen with the seat that it takes."""
    text = text_of(results())
    assert "not run, needs --allow=load: perf.gemm.bf16" in text
    assert f"needs {words.SEATS['host']}: audit.health.xid" in text


def test_a_phase_that_was_not_run_at_all_is_named_as_one() -> None:
    """Who audits is not told of every measurement that an audit does not make."""
    missed = {f"perf.a.c{n}": check(verdict="not_run", reason="not selected", phase="perf") for n in range(3)}
    missed["perf.a.skipped"] = check(verdict="skip", phase="perf")
    text = text_of(results({"audit.a.b": check(), **missed}))
    assert "not run, not selected: all 3 checks of perf that apply\n" in text


def test_rows_are_cut_after_ten() -> None:
    """A broken fleet does not scroll the tier away."""
    rows = [row(f"gpu{n}", "fail", value=n, reason=f"is {n}") for n in range(200)]
    text = text_of(results({"audit.a.b": check(*rows, over="node")}))
    assert "gpu9: is 9\n" in text
    assert "gpu10: is 10\n" not in text
    assert "and 190 nodes more, in 190 rows of results.json" in text


def test_a_finding_without_rows_gives_its_reason() -> None:
    """A check that raised has nothing observed: the reason is all there is."""
    broken = check(verdict="error", reason="the check raised KeyError: 'x'")
    assert "the check raised KeyError: 'x'" in text_of(results({"audit.a.b": broken}))


@given(st.lists(st.from_regex(r"[a-z]{1,12}", fullmatch=True), min_size=1, max_size=60), st.integers(60, 120))
def test_lines_stay_inside_the_width(sentence: list[str], width: int) -> None:
    """Sentences are wrapped; only a single long word, such as a path, may stick out."""
    document = results(
        {"audit.a.b": check(row("gpu1", "fail", reason=" ".join(sentence)))}, problems=sentence
    )
    assert all(len(line.text) <= width for line in terminal.lines(document, width))


@given(st.text())
def test_evidence_cannot_drive_the_terminal(text: str) -> None:
    """No escape sequence, newline or bell from a node reaches the terminal."""
    rows = row(f"gpu1{text}", "fail", reason=text, evidence=text)
    document = results({f"audit.a.{text}": check(rows, title=text, fix=text)})
    assert all(line.text.isprintable() for line in terminal.lines(document))


class Writer:
    """Stands in for pytest's terminal reporter."""

    def __init__(self) -> None:
        """Start with nothing written."""
        self.written: list[tuple[str, dict[str, bool]]] = []

    def write_sep(self, sep: str, title: str) -> None:
        """Keep the heading."""
        self.written.append((f"{sep} {title}", {}))

    def write_line(self, line: str, **markup: bool) -> None:
        """Keep the line with its markup."""
        self.written.append((line, markup))


def test_it_is_written_with_colours_that_pytest_knows() -> None:
    """A finding is marked by its verdict's colour; the last line is where the report is."""
    writer = Writer()
    terminal.write(writer, results(), Path("runs/1"))
    assert writer.written[0] == ("= GPUassay", {})
    assert ("FAIL   audit.health.row_remaps", {"red": True}) in writer.written
    assert writer.written[-1][0] == "report: runs/1/report.html"
