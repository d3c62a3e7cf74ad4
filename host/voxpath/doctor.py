"""What is there and what is missing, each with what to do about it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import shutil
from dataclasses import dataclass

from voxpath.errors import ModelError
from voxpath.models import fetch

PROGRAMS = {
    "g++": "builds the simulated board",
    "make": "builds the simulated board",
    "perl": "runs Verilator's scripts",
}
PACKAGES = {
    "cpu": (
        "onnxruntime",
        "onnx",
        "gguf",
        "tokenizers",
        "hibari-tts",
        "scipy",
        "soxr",
        "soundfile",
        "filelock",
        "rich",
    ),
    "sim": ("verilator", "peakrdl", "peakrdl-regblock"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: whether it is there, what is known of it, and what to do where it is not."""

    name: str
    there: bool
    note: str
    needed: bool = True


def look() -> list[Finding]:
    """Everything a run on the simulated board needs."""
    findings = [Finding("python", True, platform.python_version())]
    for program, purpose in PROGRAMS.items():
        path = shutil.which(program)
        note = path or f"{purpose}; install it with: sudo apt-get install {program}"
        findings.append(Finding(program, path is not None, note))
    for extra, packages in PACKAGES.items():
        for package in packages:
            try:
                findings.append(Finding(package, True, importlib.metadata.version(package)))
            except importlib.metadata.PackageNotFoundError:
                findings.append(Finding(package, False, f"install it with: pip install -e '.[{extra}]'"))
    findings.append(_gpu())
    folder = fetch.cache()
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    size = sum(path.stat().st_size for path in files) / 2**20
    note = (
        f"{folder}, {len(files)} files, {size:.0f} MiB"
        if files
        else f"{folder} is empty; the first run fills it from the network (190 MB)"
    )
    if folder.exists() and not folder.is_dir():
        findings.append(Finding("models", False, f"{folder} is not a folder: name another with VOXPATH_CACHE"))
    else:
        findings.append(Finding("models", bool(files), note, needed=False))
    return findings


def _gpu() -> Finding:
    """The GPU of `--engine cuda`, or what it lacks."""
    try:
        from voxpath.engines.cuda import device
    except ImportError as error:  # ONNX Runtime has been named as missing already
        return Finding("gpu", False, f"--engine cuda needs {error.name}", needed=False)
    try:
        return Finding("gpu", True, device.describe(), needed=False)
    except ModelError as error:
        return Finding("gpu", False, str(error), needed=False)


def show(findings: list[Finding], console) -> int:
    """Print the findings; 0 if nothing that is needed is missing, else 1."""
    for finding in findings:
        mark = "ok     " if finding.there else "missing" if finding.needed else "not yet"
        console.print(f"{mark}  {finding.name:<18} {finding.note}", highlight=False, markup=False, soft_wrap=True)
    missing = [finding.name for finding in findings if finding.needed and not finding.there]
    console.print(f"Missing: {', '.join(missing)}." if missing else "Everything that a run needs is there.")
    return 1 if missing else 0
