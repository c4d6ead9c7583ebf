"""The wheel of this suite, and environments into which it is installed, whose libraries come from here."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def build(folder: Path) -> Path:
    """Build the wheel into a folder."""
    pytest.importorskip("pip", reason="pip is not here: python -m ensurepip")
    words = ["-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run([sys.executable, *words], cwd=ROOT, check=True)
    (wheel,) = folder.glob("gpuassay-*-py3-none-any.whl")
    return wheel


def install(wheel: Path, environment: Path) -> Path:
    """Install a wheel alone into a new environment, and give the folder of its programs."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    pip = ["-m", "pip", "--python", str(environment / "bin" / "python"), "--disable-pip-version-check"]
    words = ["install", "-q", "--no-deps", "--no-index", "--no-compile", str(wheel)]
    subprocess.run([sys.executable, *pip, *words], check=True)
    # The libraries come from here; a path in a .pth file does not bring that folder's own .pth files along.
    purelib = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    (purelib / "libraries.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return environment / "bin"


def offline() -> dict[str, str]:
    """Give the environment in which a user's own pip asks nobody, and finds the libraries here."""
    plain = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PIP_", "SLURM"))
    }
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    # Forced, for the wheel must be installed although the clone is found beside the libraries.
    pip = dict.fromkeys(("NO_DEPS", "NO_INDEX", "NO_COMPILE", "FORCE_REINSTALL"), "1")
    pip |= {"NO_BUILD_ISOLATION": "0", "DISABLE_PIP_VERSION_CHECK": "1"}  # that 0 is how pip is told so
    return {
        **plain,
        "PATH": path,
        "PYTHONPATH": sysconfig.get_path("purelib"),
        **{f"PIP_{name}": value for name, value in pip.items()},
    }
