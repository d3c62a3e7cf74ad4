"""The generated register block for benches that build the whole front end."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import BUILD, ROOT

NAMES = ("frontend_regs_pkg.sv", "frontend_regs.sv")


def sources() -> list[Path]:
    """Generates the block; its files, packages first. Several processes may do so at once: a file is replaced whole,
    and only where it has changed."""
    folder = BUILD / "regs"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        subprocess.run([sys.executable, ROOT / "fpga/regs/generate.py", "rtl", scratch], check=True)
        for name in NAMES:
            new, kept = Path(scratch) / name, folder / name
            if not kept.is_file() or kept.read_bytes() != new.read_bytes():
                os.replace(new, kept)
    return [folder / name for name in NAMES]
