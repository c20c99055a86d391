"""Packages from PyPI for tests with programs of others."""
import shutil
import subprocess
import sys


def install(folder, packages):
    """Installs all packages into `folder`, or none; does nothing if it exists. Returns why that
    failed; empty for success."""
    if folder.exists():
        return ""
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--retries", "1",
                               "--timeout", "15", "--disable-pip-version-check",
                               "--root-user-action=ignore", "--target", part, *packages],
                              capture_output=True, text=True, check=False, timeout=300)
    except subprocess.TimeoutExpired:
        return "no end within five minutes"
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or ["no output"])[-1]
    part.rename(folder)
    return ""
