"""Terms: the templates, their text, files of the parties' own, and the mistakes that one can make in them."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.judge.config import ConfigError
from gpuassay.sla.template import TEMPLATES, load, parse
from gpuassay.sla.text import render

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GOLD = files("gpuassay.sla").joinpath("templates", "gold.toml").read_text(encoding="utf-8")


def numbers(node: Any) -> Iterator[str]:
    """Walk all values of a template that are no source and no name."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key not in ("source", "title", "summary", "profile", "retest_swapped", "degraded_counts"):
                yield from numbers(value)
    elif isinstance(node, list):
        for value in node:
            yield from numbers(value)
    else:
        yield str(node)


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_text_says_every_number(name: str) -> None:
    """What the TOML promises stands in the text, in words that people use, with all sources."""
    terms = load(name)
    text = render(terms)
    said = tomllib.loads(
        files("gpuassay.sla").joinpath("templates", f"{name}.toml").read_text(encoding="utf-8")
    )
    units = {"m": "minute", "h": "hour", "d": "day", "s": "second"}
    for number in numbers(said):
        digits, unit = (number[:-1], units.get(number[-1])) if number[:-1].isdecimal() else (number, None)
        hours = (
            f"{int(digits) // 24} day"
            if unit == "hour" and int(digits) % 24 == 0 and int(digits) > 24
            else ""
        )
        shown = hours or (f"{digits} {unit}" if unit else digits.replace(".0 %", " %"))
        assert shown.lower() in text.lower(), number
    assert all(section["source"] in text for section in said.values() if isinstance(section, dict))
    assert terms.digest in text
    assert "{{" not in text


def test_degraded_time_is_told_as_it_counts() -> None:
    """The three ways to count degraded time are three sentences."""
    told = [render(load(name)) for name in TEMPLATES]
    assert ["does not count as down" in text for text in told] == [True, False, False]
    assert ["a weight of 1/2" in text for text in told] == [False, True, False]
    assert ["counts as down in full" in text for text in told] == [False, False, True]


def test_templates_rise() -> None:
    """Silver promises no less than bronze, and gold no less than silver, in every term."""
    bronze, silver, gold = (load(name) for name in TEMPLATES)
    for lower, higher in ((bronze, silver), (silver, gold)):
        assert lower.availability.node < higher.availability.node
        assert lower.availability.rack < higher.availability.rack
        assert lower.down.degraded_counts < higher.down.degraded_counts
        assert lower.down.settled_s <= higher.down.settled_s
        for time in ("detect_s", "isolate_s", "replace_s"):
            assert getattr(lower.times, time) > getattr(higher.times, time)
        assert lower.maintenance.most_s > higher.maintenance.most_s
        assert lower.termination.below < higher.termination.below
        assert lower.spares.share < higher.spares.share


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    """A copy with another number is read by its path, and its digest is another one."""
    (tmp_path / "ours.toml").write_text(GOLD.replace('replace = "1h"', 'replace = "30m"'), encoding="utf-8")
    terms = load("ours.toml", tmp_path)
    assert (terms.name, terms.times.replace_s) == ("ours", 1800)
    assert terms.digest != load("gold").digest


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('title = "Gold"', "title = ", "mine.toml: not TOML: "),
        ('title = "Gold"', "", "mine.toml: title: is missing"),
        (
            'node = "99.9 %"',
            "node = 99.9",
            '[availability] node: expected a share such as "99.9 %"; found 99.9',
        ),
        ('node = "99.9 %"', 'node = "101 %"', "[availability] node: expected a share"),
        ('detect = "2m"', 'detect = "2 minutes"', '[times] detect: expected a time such as "2m"'),
        (
            'degraded_counts = "1"',
            'degraded_counts = "2"',
            '[down] degraded_counts: expected "0", "1" or a part',
        ),
        ('degraded_counts = "1"', 'degraded_counts = "1/0"', "[down] degraded_counts: expected"),
        ('tier = "gold"', 'tier = "golden"', 'did you mean "gold"?'),
        ("down_at = 3", "down_at = 30", "[rack]: down_at must be between 1 and nodes, which is 18"),
        ("down_at = 3", "down_at = 3\nup_at = 4", "[rack] up_at: unknown"),
        ("[spares]", "[spare]", "mine.toml: spare: unknown"),
        (
            'below = "99.0 %", percent = 25',
            'below = "99.95 %", percent = 25',
            "below must fall and percent must rise",
        ),
        (
            'below = "99.9 %", percent = 10',
            'below = "99.8 %", percent = 10',
            "first band must begin at the availability",
        ),
        ("missed = 3", "missed = 7", "[termination]: missed must be between 1 and of_months"),
        ('source = "ours"', "", "[maintenance] source: is missing"),
    ],
)
def test_every_mistake_is_named(old: str, new: str, words: str) -> None:
    """A broken file gives an error with its name, table and key, and what was expected."""
    assert old in GOLD
    with pytest.raises(ConfigError) as error:
        parse(GOLD.replace(old, new, 1).encode(), "mine.toml")
    assert words in str(error.value)
    assert str(error.value).startswith("mine.toml")


def test_a_template_that_is_not_there(tmp_path: Path) -> None:
    """An unknown name says which there are; a path that leads nowhere is named."""
    with pytest.raises(ConfigError, match=r'SLA golde: there is no such template.*did you mean "gold"'):
        load("golde")
    with pytest.raises(ConfigError, match=r"nowhere\.toml: cannot be read: No such file"):
        load("nowhere.toml", tmp_path)
    with pytest.raises(ConfigError, match="not TOML"):
        parse(b"\xff\xfe", "mine.toml")
