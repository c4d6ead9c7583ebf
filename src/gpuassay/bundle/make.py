"""Making a bundle: wheels for a platform, a model of real size, container files of reference images."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from gpuassay.bundle.content import BundleError, seal
from gpuassay.measure.work import weights

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PACKAGES = ("torch", "numpy", "uv")
PLATFORM = "manylinux_2_28_x86_64"
PYTHON = "3.12"


@dataclass(frozen=True)
class Wanted:
    """What shall be in it. ``model`` has the sizes of a model; ``index`` is empty for pip's own."""

    folder: Path
    model: Mapping[str, int]
    packages: tuple[str, ...] = PACKAGES
    platforms: tuple[str, ...] = (PLATFORM,)
    python: str = PYTHON
    index: str = ""
    suite: Path | None = None

    @property
    def download(self) -> tuple[str, ...]:
        """The command that fetches the wheels; never a source, which would have to be built on the site."""
        where = ("--index-url", self.index) if self.index else ()
        platforms = (word for name in self.platforms for word in ("--platform", name))
        how = ("--only-binary=:all:", *platforms, "--python-version", self.python)
        into = ("--quiet", "--disable-pip-version-check", "--dest", str(self.folder / "wheels"))
        return (sys.executable, "-m", "pip", "download", *into, *how, *where, *self.packages)

    @property
    def document(self) -> dict[str, Any]:
        """How it was made, as the manifest tells."""
        return {
            "packages": list(self.packages),
            "platforms": list(self.platforms),
            "python": self.python,
            "model": dict(self.model),
            "seed": weights.SEED,
        }


def plan(wanted: Wanted) -> list[str]:
    """Say in lines what would be made, and how large it is; of wheels only their index knows."""
    size, place = weights.size(wanted.model), wanted.folder
    wheels = f"{', '.join(wanted.packages)} and their needs, for Python {wanted.python}"
    unknown = "of a size that is known once they are fetched (torch with CUDA: some GB)"
    return [
        f"{place}/model: {size} bytes of weights, by seed {weights.SEED}, and a tokenizer that stands in",
        f"{place}/wheels: {wheels} on {', '.join(wanted.platforms)}, {unknown}",
        f"{place}/images: {', '.join(sorted(_images()))}",
        f"at least {size} bytes in all",
    ]


def make(wanted: Wanted) -> dict[str, Any]:
    """Make a bundle in a new folder; gives its manifest. Raises BundleError."""
    if wanted.folder.exists() and any(wanted.folder.iterdir()):
        raise BundleError(f"{wanted.folder} is not empty: name a new folder, or remove it")
    wanted.folder.mkdir(parents=True, exist_ok=True)
    room, size = shutil.disk_usage(wanted.folder).free, weights.size(wanted.model)
    if size > room:
        raise BundleError(f"{wanted.folder}: {size} bytes are needed for the model alone, {room} are free")
    _run(wanted.download)
    if wanted.suite is not None:
        how = ("--quiet", "--no-deps", "--wheel-dir", str(wanted.folder / "wheels"))
        _run((sys.executable, "-m", "pip", "wheel", *how, str(wanted.suite)))
    weights.write(wanted.folder / "model", wanted.model)
    images = wanted.folder / "images"
    images.mkdir()
    for name, text in _images().items():
        (images / name).write_text(text, encoding="utf-8")
    return seal(wanted.folder, wanted.document)


def _images() -> dict[str, str]:
    found = files("gpuassay.bundle").joinpath("images").iterdir()
    return {one.name: one.read_text(encoding="utf-8") for one in found if one.name.endswith("Containerfile")}


def _run(argv: tuple[str, ...]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603 - pip, and words of ours
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        what = " ".join(argv[2:4])
        raise BundleError(f"{what} ended with status {done.returncode}: {last[0] if last else 'no words'}")
