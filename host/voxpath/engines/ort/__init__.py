"""Networks on ONNX Runtime, on the CPU: one thread each, so that stages and board do not fight over the cores.

Each of the three takes the folder that `voxpath.models` returns, loads it, and runs it once so that the first real
call is as fast as the others. All are safe to use from several threads; a call that takes `cancel` raises `Cancelled`
within a few milliseconds of its being set.
"""

from pathlib import Path

from voxpath.engines.ort.hibari import voice
from voxpath.engines.ort.llama import Context, Language
from voxpath.engines.ort.whisper import recogniser

__all__ = ["Context", "Language", "language", "recogniser", "voice"]


def language(model: Path) -> Language:
    """Text to text with an exported Llama."""
    return Language(model)
