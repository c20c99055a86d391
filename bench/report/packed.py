"""Programs that tools/pack_programs packed, in a folder of a machine without their packages."""

import os
from pathlib import Path

# By which an OpenCL loader finds drivers where no package told it of any.
ICD_FOLDER = Path("/etc/OpenCL/vendors")
NVIDIA = "libnvidia-opencl.so.1"


def use(folder):
    """Has programs find the libraries that came with them, and the loader NVIDIA's driver where it
    knows of none. A folder that was built in is left as it is."""
    if not (folder / "lib").is_dir():
        return
    paths = [str(folder / "lib"), str(folder), os.environ.get("LD_LIBRARY_PATH", "")]
    os.environ["LD_LIBRARY_PATH"] = ":".join(path for path in paths if path)
    if not any(ICD_FOLDER.glob("*.icd")) and "OCL_ICD_VENDORS" not in os.environ:
        vendors = folder / "vendors"
        vendors.mkdir(exist_ok=True)
        (vendors / "nvidia.icd").write_text(f"{NVIDIA}\n", encoding="utf-8")
        os.environ["OCL_ICD_VENDORS"] = f"{vendors}/"
