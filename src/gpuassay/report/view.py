"""What a reader looks for in a results document: findings first, then what was not judged, then the rest."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from gpuassay.judge.names import natural
from gpuassay.report import words
from gpuassay.report.places import NAMED, nodes, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Results: TypeAlias = "Mapping[str, Any]"
Check: TypeAlias = "Mapping[str, Any]"
Row: TypeAlias = "Mapping[str, Any]"


FEW = 3
"""So many different values of one metric are written out where a check is in order."""


class Marked(NamedTuple):
    """An observation with the check that it belongs to."""

    id: str
    check: Check
    row: Row


def ordered(results: Results) -> list[tuple[str, Check]]:
    """List all checks: worst verdict first, then the tier that asks first, then natural order of ids."""
    return sorted(
        results["checks"].items(),
        key=lambda item: (
            words.ORDER[item[1]["verdict"]],
            words.TIER_ORDER[item[1]["tier"]],
            natural(item[0]),
        ),
    )


def with_verdict(results: Results, verdicts: Iterable[str]) -> list[tuple[str, Check]]:
    """List the checks that came out so, in the order of ``ordered``."""
    wanted = frozenset(verdicts)
    return [(check_id, check) for check_id, check in ordered(results) if check["verdict"] in wanted]


def tally(results: Results) -> list[tuple[str, int]]:
    """Count the checks by verdict, in a reader's order."""
    counts: dict[str, int] = defaultdict(int)
    for check in results["checks"].values():
        counts[check["verdict"]] += 1
    return words.tally(counts)


def by_category(results: Results) -> list[tuple[str, dict[str, int]]]:
    """Count the checks of each category by verdict, the categories by name."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for check in results["checks"].values():
        found[check["category"]][check["verdict"]] += 1
    return sorted(found.items())


def offenders(check: Check) -> list[Row]:
    """List the rows that are neither pass nor skip, worst first, in natural order of place.

    Metrics that one cause kept from being read are one row: seven times "denied" tells no more than once.
    """
    causes: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in check["observations"]:
        if row["verdict"] not in words.IN_ORDER:
            alone = "" if row["value"] is None and row["reason"].startswith(row["metric"]) else row["metric"]
            cause = row["reason"].removeprefix(row["metric"])
            causes[row["where"], row["verdict"], row["evidence"], cause, words.at(row["at"]), alone].append(
                row
            )
    rows = [_joined(own) for own in causes.values()]
    return sorted(rows, key=lambda row: (words.ORDER[row["verdict"]], natural(row["where"])))


def _joined(rows: list[Row]) -> Row:
    first, *others = rows
    if not others:
        return first
    metrics = ", ".join(row["metric"] for row in rows)
    return {**first, "metric": metrics, "reason": metrics + first["reason"].removeprefix(first["metric"])}


def cause(row: Row) -> str:
    """Give the reason of a row without the names of its metrics: what kept them all from being judged."""
    said: str = row["reason"].removeprefix(row["metric"]).removeprefix(":").strip()
    return said


def hindrances(check: Check) -> list[dict[str, str]]:
    """List what kept a check from being judged, each cause and its evidence once, with the nodes."""
    found: dict[str, dict[str, str]] = {}
    for row in offenders(check):
        said = cause(row)
        kept = found.setdefault(said, {"where": "", "cause": said, "evidence": row["evidence"]})
        kept["where"] = ",".join(filter(None, (kept["where"], row["where"])))
    return list(found.values())


def reasons(results: Results, verdict: str = "not_run") -> list[tuple[str, list[tuple[str, Check]]]]:
    """Group the checks that came out so by their reason, in order of first appearance."""
    grouped: dict[str, list[tuple[str, Check]]] = defaultdict(list)
    for check_id, check in with_verdict(results, [verdict]):
        grouped[check["reason"]].append((check_id, check))
    return list(grouped.items())


def phases(checks: Iterable[tuple[str, Check]]) -> str:
    """Name the phases that checks belong to: ``performance``, ``audit and performance``."""
    found = {check["phase"] for _, check in checks}
    return " and ".join(name for phase, name in words.PHASES.items() if phase in found)


def seats(results: Results) -> list[tuple[str, list[tuple[str, Check]]]]:
    """Group the checks that have seen less than all of it by the seat from which it can be seen."""
    grouped: dict[str, list[tuple[str, Check]]] = defaultdict(list)
    for check_id, check in ordered(results):
        rows = (row for row in check["observations"] if not row.get("provisional"))
        if check["verdict"] == "unseen" or any(row["verdict"] == "unseen" for row in rows):
            grouped[check["seat"]].append((check_id, check))
    return sorted(grouped.items(), key=lambda pair: list(words.SEATS).index(pair[0]))


def marked(results: Results, mark: str) -> list[Marked]:
    """List the observations that carry a mark (``provisional``, ``waived``, ``caps``), with their checks."""
    return [
        Marked(check_id, check, row)
        for check_id, check in ordered(results)
        for row in check["observations"]
        if row.get(mark)
    ]


def sick(results: Results, entry: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Say of a node on the return list which checks failed there, and what each found."""
    return [
        (check_id, row["reason"])
        for check_id in entry["checks"]
        for row in results["checks"][check_id]["observations"]
        if row["verdict"] == "fail" and entry["where"] in nodes(row["where"])
    ]


def by_cause(entries: Iterable[Mapping[str, str]]) -> list[list[Mapping[str, str]]]:
    """Put together the checks that one cause holds back, such as a silent node, in the order of the first."""
    causes = defaultdict(list)
    for entry in entries:
        causes[entry["verdict"], entry["reason"]].append(entry)
    return list(causes.values())


def outcome(check: Check) -> str:
    """Say how many observations came out how: ``1 fail, 31 pass``."""
    return ", ".join(f"{n:,} {words.VERDICTS[key].label.lower()}" for key, n in words.tally(check["counts"]))


def limit(check: Check, row: Row) -> str:
    """Say what a row was held to: the limit in words, and the reference figure where there is one."""
    said = check["limits"].get(row["metric"], "")
    reference = f"reference {words.value(row['reference'])}" if row["reference"] is not None else ""
    return "; ".join(filter(None, (said, reference)))


def seen(check: Check) -> Iterator[tuple[str, str, str]]:
    """Say of each metric of a check what was found and what it was held to: name, values, limit."""
    for metric in check["limits"]:
        rows = [row for row in check["observations"] if row["metric"] == metric and row["value"] is not None]
        if rows:
            yield metric, _values(rows), limit(check, rows[0])


def _values(rows: Sequence[Row]) -> str:
    """Write values as a reader wants them: the one, the few, from the least to the most, or how many."""
    found = list(dict.fromkeys(words.value(row["value"]) for row in rows))
    if len(found) <= FEW:
        return ", ".join(found)
    numbers = [row["value"] for row in rows]
    if all(type(number) in (int, float) for number in numbers):
        return f"{words.value(min(numbers))} to {words.value(max(numbers))}"
    return f"{len(found)} different values"


def advice(check: Check) -> tuple[str, str]:
    """Say what to do about a finding: mend what is wrong, or first see what was not seen."""
    if check["verdict"] == "error":
        return "To judge it", "remove what kept it from being seen, and run it again."
    if check["verdict"] == "unseen":
        return "To judge it", f"take a recording from {words.SEATS[check['seat']]}."
    return "Fix", check["fix"]


def spread(check: Check, row: Row) -> str:
    """Say on how many a row was seen: ``8 GPUs``, or ``2 nodes`` where whole nodes stand for their GPUs."""
    whole = "/" not in row["where"] and check["over"] in {"gpu", "port", "nic"}
    return words.counted(row["count"], "node" if whole else check["over"])


def row_text(check: Check, row: Row) -> str:
    """Write one observation as one line of plain text; a reason already says value and limit."""
    where = shorten(row["where"]) or "the cluster"
    many = f" ({spread(check, row)})" if row["count"] > 1 else ""
    spot = f"at {words.at(row['at'])}," if row["at"] else ""
    evidence = f"[{row['evidence']}]" if row["evidence"] else ""
    said = row["reason"] or f"{row['metric']} = {words.value(row['value'])}"
    return " ".join(filter(None, (f"{where}{many}:", spot, said, evidence)))


def row_lines(check: Check, named: int = NAMED) -> Iterator[str]:
    """Write the first rows that are not in order as text, and count the rest."""
    rows = offenders(check)
    for row in rows[:named]:
        yield row_text(check, row)
    if len(rows) > named:
        yield left_over(check, rows[named:])


def left_over(check: Check, rows: list[Row]) -> str:
    """Count what a report does not list: ``and 812 GPUs more, in 40 rows``."""
    subjects = words.counted(sum(row["count"] for row in rows), check["over"])
    return f"and {subjects} more, in {words.plural(len(rows), 'row')} of results.json"


def repeats(results: Results) -> list[str]:
    """Say in a line how far the repeats of measured figures lie apart, and which were measured again."""
    rows = [
        (f"{check_id}, {shorten(row['where'])}", row)
        for check_id, check in results["checks"].items()
        for row in check["observations"]
        if "spread" in row
    ]
    if not rows:
        return []
    place, widest = max(rows, key=lambda one: one[1]["spread"])
    again = sum("measured again" in row.get("note", "") for _, row in rows)
    said = f"repeats of measured figures lie up to {widest['spread']:.1%} apart ({place})"
    return [said + (f"; {words.plural(again, 'figure')} measured again" if again else "")]
