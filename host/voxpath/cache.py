"""Where everything lives that is fetched, converted or compiled once."""

import os
from pathlib import Path


def cache() -> Path:
    """`$VOXPATH_CACHE`, else `~/.cache/voxpath`; it may not exist yet."""
    folder = os.environ.get("VOXPATH_CACHE")
    return Path(folder).expanduser().absolute() if folder else Path.home() / ".cache" / "voxpath"
