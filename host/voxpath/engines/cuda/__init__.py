"""Networks on an NVIDIA GPU with ONNX Runtime's CUDA provider: a step of a decoder is one CUDA Graph.

Each of the three takes the folder that `voxpath.models` returns for this engine, as those of `voxpath.engines.ort` do.
What decoders remember stays on the GPU, and they choose tokens there: the host reads eight bytes a token. (ONNX Runtime
waits for a graph that it replays, so the next step is not given to the GPU before.) Recognition goes before the other
two on the GPU.
"""

from pathlib import Path

from voxpath.engines.cuda.device import Gpu, check
from voxpath.engines.cuda.hibari import voice_on
from voxpath.engines.cuda.llama import Language
from voxpath.engines.cuda.whisper import recogniser_on
from voxpath.engines.hibari import Voice
from voxpath.engines.whisper import Recogniser

__all__ = ["check", "language", "recogniser", "voice"]


def recogniser(model: Path) -> Recogniser:
    """Speech to text with a Whisper exported for the GPU."""
    return recogniser_on(Gpu("recognise", urgent=True), model)


def language(model: Path) -> Language:
    """Text to text with a Llama exported for the GPU."""
    return Language(Gpu("think"), model)


def voice(model: Path) -> Voice:
    """Text to speech with hibari exported for the GPU; its sound is put together on the CPU."""
    return voice_on(Gpu("speak"), model)
