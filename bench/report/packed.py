"""Programs packed by tools/pack_programs, in a folder of a machine without their packages."""

import os
import shutil
from pathlib import Path

# The folder in which an OpenCL loader finds drivers by default.
ICD_FOLDER = Path("/etc/OpenCL/vendors")
NVIDIA = "libnvidia-opencl.so.1"


def use(folder):
    """Sets the library path to the packed libraries and registers NVIDIA's driver, in addition
    to the registered ones, if the loader would not find it. No-op for a build folder."""
    if not (folder / "lib").is_dir():
        return
    paths = [str(folder / "lib"), str(folder), os.environ.get("LD_LIBRARY_PATH", "")]
    os.environ["LD_LIBRARY_PATH"] = ":".join(path for path in paths if path)
    registered = list(ICD_FOLDER.glob("*.icd"))
    if "OCL_ICD_VENDORS" in os.environ or any("nvidia" in icd.read_text(encoding="utf-8")
                                              for icd in registered):
        return
    vendors = folder / "vendors"
    vendors.mkdir(exist_ok=True)
    for icd in registered:
        shutil.copy(icd, vendors)
    (vendors / "nvidia.icd").write_text(f"{NVIDIA}\n", encoding="utf-8")
    os.environ["OCL_ICD_VENDORS"] = f"{vendors}/"
