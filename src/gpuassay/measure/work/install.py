"""How long pip and uv take to install a set of packages on each file system, from wheels that are at hand."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import time
import zipfile
from typing import TYPE_CHECKING, Any

from gpuassay.measure.work import errands

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpuassay.measure.work.scratch import Scratch

STAND_IN = "gpuassay-stand-in"
"""A package of small files, made where it is needed, for a machine without accelerators."""
GET_UV = "uv is not on this node: pip install uv, or the bundle's wheel of it"
_MODULES = 64


def measure(scratch: Scratch, order: Mapping[str, Any]) -> dict[str, Any]:
    """Make an environment and install into it: by pip, by uv, and by uv again with what it has cached."""
    source = _source(scratch.path, order)
    if source is None:
        return {"status": "unsupported", "why": "the site file names no packages"}
    patience = float(order["args"]["patience_s"])
    installing = _Installing(scratch.path, *source, patience)
    return {"packages": list(source[0]), **installing.by_pip(), "uv": installing.by_uv()}


class _Installing:
    """The two ways into environments below one folder."""

    def __init__(
        self, folder: Path, packages: tuple[str, ...], origin: tuple[str, ...], patience: float
    ) -> None:
        self.folder, self.packages, self.origin, self.patience = folder, packages, origin, patience

    def by_pip(self) -> dict[str, Any]:
        """Install once. Raises ErrandError."""
        place = self.folder / "by-pip"
        made, _ = self._run((sys.executable, "-m", "venv", str(place)))
        python = str(place / "bin" / "python")
        quiet = ("--quiet", "--no-cache-dir", "--disable-pip-version-check", "--no-input")
        took, _ = self._run((python, "-m", "pip", "install", *quiet, *self.origin, *self.packages))
        self._prove(python)
        begin = time.perf_counter()
        shutil.rmtree(place)
        removed = time.perf_counter() - begin
        return {"venv_seconds": made, "pip_seconds": took, "remove_seconds": removed}

    def by_uv(self) -> dict[str, Any]:
        """Install twice: the second time from uv's cache on the same file system."""
        uv = _uv()
        if not uv:
            return {"status": "not_found", "why": GET_UV}
        try:
            version = self._run((*uv, "--version"))[1].strip()
            cold, warm = self._by_uv(uv, "by-uv"), self._by_uv(uv, "by-uv-again")
        except errands.ErrandError as why:
            return {"status": "failed", "why": str(why)}
        return {"status": "ok", "version": version, "cold_seconds": cold, "warm_seconds": warm}

    def _by_uv(self, uv: tuple[str, ...], name: str) -> float:
        place = self.folder / name
        self._run((*uv, "venv", "--quiet", "--no-config", "--python", sys.executable, str(place)))
        python = str(place / "bin" / "python")
        cache = ("--quiet", "--no-config", "--cache-dir", str(self.folder / "uv-cache"))
        words = (*uv, "pip", "install", *cache, "--python", python, *self.origin, *self.packages)
        took, _ = self._run(words)
        self._prove(python)
        return took

    def _prove(self, python: str) -> None:
        """Have the new environment name what was installed: a fast tool that did nothing is none."""
        ask = "import sys\nfrom importlib.metadata import version\n[version(name) for name in sys.argv[1:]]"
        names = [package.partition("==")[0].partition("[")[0] for package in self.packages]
        self._run((python, "-c", ask, *names))

    def _run(self, argv: tuple[str, ...]) -> tuple[float, str]:
        return errands.timed(argv, self.patience, self.folder)


def _source(folder: Path, order: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Give the packages and the options that say where they come from; never from an undeclared place."""
    packages = order["packages"]
    if packages is None:
        if not order["tiny"]:
            return None
        stand_in(folder / "wheels")
        return (STAND_IN,), ("--no-index", f"--find-links={folder / 'wheels'}")
    if packages["index"]:
        return tuple(packages["install"]), (f"--index-url={packages['index']}",)
    return tuple(packages["install"]), ("--no-index", f"--find-links={packages['wheels']}")


def stand_in(folder: Path) -> Path:
    """Write a wheel of many small modules; gives the file."""
    folder.mkdir(parents=True, exist_ok=True)
    module, version = STAND_IN.replace("-", "_"), "1.0"
    about = f"{module}-{version}.dist-info"
    texts = {f"{module}/part{number}.py": f"NUMBER = {number}\n" for number in range(_MODULES)}
    texts |= {
        f"{module}/__init__.py": "",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {STAND_IN}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    texts[f"{about}/RECORD"] = "".join(f"{name},,\n" for name in (*texts, f"{about}/RECORD"))
    file = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as wheel:
        for name, text in texts.items():
            wheel.writestr(name, text)
    return file


def _uv() -> tuple[str, ...]:
    found = shutil.which("uv")
    if found:
        return (found,)
    return (sys.executable, "-m", "uv") if importlib.util.find_spec("uv") else ()
