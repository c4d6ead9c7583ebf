"""A machine with GPUs for tests: our stand-in for the driver's library, and the answers it is to give."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCE = Path(__file__).with_name("fakenvml.c")

B200 = {
    "driver": "580.95.05",
    "nvml": "13.580.95.05",
    "cuda": "13000",
    "count": "8",
    "gpu.name": "NVIDIA B200",
    "gpu.serial": "1650224000001",
    "gpu.board_part": "692-2G525-0200-000",
    "gpu.vbios": "97.00.52.00.04",
    "gpu.pstate": "0",
    "gpu.persistence": "1",
    "gpu.mig": "0 0",
    "gpu.power": "1000000",
    "gpu.power_default": "1000000",
    "gpu.applications_clock": "1965 1965 3996",
    "gpu.default_applications_clock": "1965 1965 3996",
    "gpu.max_clock": "1965 1965 3996",
    "gpu.memory": "192265846784",
    "gpu.ecc": "1 1",
    "gpu.remapped_rows": "0 0 0 0",
    "gpu.banks": "3840 0 0 0 0",
    "gpu.errors_0_0": "0",
    "gpu.errors_1_0": "0",
    "gpu.errors_1_1": "0",
    "gpu.sram_exceeded": "0",
    "gpu.repairs": "0 0",
    "gpu.unrepairable": "0",
    "gpu.field_82": "39",
    "gpu.field_94": "0",
    "gpu.field_194": "4294967293",
    "gpu.field_226": "!26",
    "gpu.field_227": "!26",
    "gpu.field_230": "0",
    "gpu.clock_reasons": "0x1",
    "gpu.gpu_c": "39",
    "gpu.tlimit_c": "49",
    "gpu.utilization": "0 0",
    "gpu.power_mw": "195680",
    "gpu.memory_used": "0",
    "gpu.addressing": "0",
    "gpu.pcie_gen": "5",
    "gpu.pcie_gen_max": "5",
    "gpu.pcie_width": "16",
    "gpu.pcie_width_max": "16",
    "gpu.nvlinks": "18",
    "gpu.field_164": "53125",
    **{f"gpu.field_{field}": "0" for field in (206, 207, 208, 209, 211, 213, 214)},
    **{f"gpu.field_{field}": "4095" for field in (220, 222)},
    "gpu.fabric": "3 0 0 128 1",
    **{f"{index}.uuid": f"GPU-{index:08x}-0000-0000-0000-000000000000" for index in range(8)},
    **{f"{index}.pci": f"00000000:{0x1A + index:02X}:00.0 290110DE 199910DE" for index in range(8)},
}
"""Eight healthy B200. They give no answer about retired pages, rightly: such GPUs remap rows instead."""


def build(folder: Path, *flags: str) -> Path:
    """Compile the library into a new folder; a test that needs it is skipped where there is no compiler."""
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("gcc is not installed: apt-get install gcc")
    folder.mkdir()
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([gcc, "-shared", "-fPIC", "-Wall", "-Werror", *flags, "-o", library, _SOURCE], check=True)
    return folder


def environment(library: Path, answers: Path, **changed: str) -> dict[str, str]:
    """Write down a machine's answers, changed in part, and give the environment in which it is met."""
    lines = (f"{key} {value}\n" for key, value in {**B200, **changed}.items())
    answers.write_bytes("".join(lines).encode(errors="surrogateescape"))
    return {"LD_LIBRARY_PATH": str(library), "GPUASSAY_TEST_NVML": str(answers)}
