"""Programs packed by tools/pack_programs, in a folder of a machine without their packages."""

import os
from pathlib import Path

# The folder in which an OpenCL loader finds drivers by default.
ICD_FOLDER = Path("/etc/OpenCL/vendors")
NVIDIA = "libnvidia-opencl.so.1"


def use(folder):
    """Sets the library path to the packed libraries and, if the loader finds no driver, registers
    NVIDIA's driver with it. No-op for a build folder."""
    if not (folder / "lib").is_dir():
        return
    paths = [str(folder / "lib"), str(folder), os.environ.get("LD_LIBRARY_PATH", "")]
    os.environ["LD_LIBRARY_PATH"] = ":".join(path for path in paths if path)
    if not any(ICD_FOLDER.glob("*.icd")) and "OCL_ICD_VENDORS" not in os.environ:
        vendors = folder / "vendors"
        vendors.mkdir(exist_ok=True)
        (vendors / "nvidia.icd").write_text(f"{NVIDIA}\n", encoding="utf-8")
        os.environ["OCL_ICD_VENDORS"] = f"{vendors}/"
