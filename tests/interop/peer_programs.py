"""The Python environments of tools/setup/install_peers."""
import os
import pathlib

PEERS = pathlib.Path(os.environ.get("CLORA_PEERS", pathlib.Path.home() / ".cache/clora/peers"))


def python_of(name):
    """The interpreter of a peer; None if it is not installed."""
    python = PEERS / name / "bin/python"
    return python if python.exists() else None
