"""Every text of the report can be read on its ground, in light and in dark (WCAG 2.2, 1.4.3: 4.5 to 1)."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from gpuassay.report import words

STYLE = files("gpuassay.report").joinpath("templates", "report.css").read_text()
PALETTES = {
    name: dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
    for name, block in zip(("light", "dark"), re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL), strict=False)
}
PAIRS = [
    *((text, "paper") for text in ("ink", "dim", "link", "none", *words.TIERS, *words.VERDICTS)),
    *((verdict, f"{verdict}-bg") for verdict in words.VERDICTS),
]


def luminance(colour: str) -> float:
    """Give the relative luminance of WCAG 2.2."""
    channels = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("palette", PALETTES)
@pytest.mark.parametrize(("text", "ground"), PAIRS)
def test_contrast(palette: str, text: str, ground: str) -> None:
    """A verdict in its own colours, and every text on the paper, reach the ratio of normal text."""
    colours = PALETTES[palette]
    dark, light = sorted((luminance(colours[text]), luminance(colours[ground])))
    assert (light + 0.05) / (dark + 0.05) >= 4.5
