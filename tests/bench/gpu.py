"""The chain on an NVIDIA GPU: what launches, copies and each stage take, and from the end of speech to sound.

    python tests/bench/gpu.py [--speech FILE] [--cpu] [--shape 8b] [--turns 200] [--json FILE]
    python tests/bench/gpu.py --collect FILE [--turns 200]

A GPU machine often has no network: `--collect` writes the utterances of the response bench, at 16 kHz with their words,
into a file for `--speech`, and needs no GPU. There is no board here, and nothing is speculated on: a turn begins with
all of its sound in memory and ends with the first of the reply's that can be heard (`chain_ms`, docs/timing.md). As in
a conversation, what was said up to half a second before the end has been recognised by then, and the language model has
read its prompt; the row "at once" does without the former. `--cpu` has the CPU's chain hear the same.

`--shape 8b` also measures a model of Llama 3 8B's dimensions with random weights: its speed alone means anything.
"""

import argparse
import json
import platform
import sys
import time
from pathlib import Path

import jiwer
import large_shape
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from voxpath import models
from voxpath.engines.cancel import Cancel
from voxpath.errors import VoxpathError
from voxpath.speech.phrases import PhraseCutter
from voxpath.speech.recognise import words
from voxpath.speech.speak import LeadTrimmer
from voxpath.speech.think import Thinker

RATE = 16000
EARLIER_S = 0.5  # before the end of the sound, the last partial recognition
CONVERSATION = 8  # turns before a new one begins
WARM_UP = 5  # turns that do not count
TARGETS = {"chain p50": 25.0, "chain p95": 35.0, "token": 1.2}
COPIES = (128, 640, 65536)  # bytes: an event, a frame of 20 ms, a second and more of sound


def main() -> int:
    args = _options()
    console = Console()
    try:
        if args.collect:
            return _collect(Path(args.collect), args.turns, console)
        sounds, texts = _speech(args)
        results = {"machine": _machine()}
        console.print(results["machine"], highlight=False)
        results["primitives"] = _primitives(console)
        with console.status("loading the models"):
            engines = _engines("cuda")
        results["stages"] = _stages(engines, sounds, console)
        results["chain"] = {
            "with partial recognition": _chain(engines, sounds, texts, True, console),
            "at once": _chain(engines, sounds, texts, False, console),
        }
        if args.cpu:
            results["chain"]["CPU"] = _chain(_engines("cpu"), sounds, texts, True, console)
        if args.shape:
            results["8b"] = large_shape.measure(engines, sounds, console)
    except VoxpathError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    _show(results["chain"], console)
    if args.json:
        Path(args.json).write_text(json.dumps(results, indent=1))
    headline = results["chain"]["with partial recognition"]["chain_ms"]
    figures = {"chain p50": headline["p50"], "chain p95": headline["p95"], "token": results["stages"]["token"]["p50"]}
    missed = [f"{name} {figures[name]:.1f} ms, wanted {most}" for name, most in TARGETS.items() if figures[name] > most]
    console.print("Missed: " + "; ".join(missed) if missed else "Every target is met.")
    return 1 if missed else 0


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--speech", metavar="FILE", help="what --collect wrote")
    options.add_argument("--collect", metavar="FILE")
    options.add_argument("--cpu", action="store_true")
    options.add_argument("--shape", choices=("8b",))
    options.add_argument("--turns", type=int, default=200)
    options.add_argument("--json", metavar="FILE")
    return options.parse_args()


# ---- what is said ----------------------------------------------------------------------------------------------------


def _utterances(turns: int, console: Console) -> tuple[list[np.ndarray], list[str]]:
    import prompts
    import soxr

    clips = [clip for _, clip in prompts.turns(turns, 0, missing=console.print)]
    floats = (soxr.resample(clip.pcm.astype(np.float32), 48000, RATE) for clip in clips)
    sounds = [np.clip(np.rint(sound), -32768, 32767).astype(np.int16) for sound in floats]
    return sounds, [clip.labels[0].text for clip in clips]


def _collect(path: Path, turns: int, console: Console) -> int:
    sounds, texts = _utterances(turns, console)
    with open(path, "wb") as file:
        np.savez_compressed(file, pcm=np.concatenate(sounds), ends=np.cumsum([len(s) for s in sounds]), texts=texts)
    console.print(f"{len(sounds)} utterances in {path}")
    return 0


def _speech(args) -> tuple[list[np.ndarray], list[str]]:
    if not args.speech:
        return _utterances(args.turns, Console())
    try:
        with np.load(args.speech) as stored:
            sounds = np.split(stored["pcm"], stored["ends"][:-1])
            return sounds[: args.turns], [str(text) for text in stored["texts"]][: args.turns]
    except (OSError, ValueError, KeyError) as error:
        raise VoxpathError(f"{args.speech} is not what --collect writes ({error}).") from error


# ---- what is measured ------------------------------------------------------------------------------------------------


def _engines(engine: str) -> tuple:
    from voxpath.cli import engine_module

    made = engine_module(engine)
    return (
        made.recogniser(models.asr(engine=engine)),
        made.language(models.llm(engine=engine)),
        made.voice(models.tts(engine=engine)),
    )


def _machine() -> str:
    import onnxruntime
    from cuda.bindings import runtime

    _, properties = runtime.cudaGetDeviceProperties(0)
    _, driver = runtime.cudaDriverGetVersion()
    return (
        f"{properties.name.decode()}, driver for CUDA {driver // 1000}.{driver % 1000 // 10}, "
        f"ONNX Runtime {onnxruntime.__version__}, Python {platform.python_version()}"
    )


def _figures(seconds) -> dict[str, float]:
    """Median and 95th percentile in ms."""
    ms = 1e3 * np.asarray(seconds)
    return {"p50": float(np.median(ms)), "p95": float(np.percentile(ms, 95)), "n": len(ms)}


def _times(work, count: int) -> dict[str, float]:
    for _ in range(3):
        work()
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return _figures(taken)


def _primitives(console: Console) -> dict:
    """Copies to the GPU and launches, each until it is done."""
    from cuda.bindings import runtime as cuda

    def call(name, *arguments):
        error, *values = getattr(cuda, name)(*arguments)
        if error != cuda.cudaError_t.cudaSuccess:
            raise VoxpathError(f"The GPU failed: {name}: {error.name}.")
        return values[0] if len(values) == 1 else tuple(values)

    stream = call("cudaStreamCreateWithFlags", cuda.cudaStreamNonBlocking)
    device = call("cudaMalloc", 1 << 28)
    pinned = call("cudaMallocHost", max(COPIES))
    pageable = np.zeros(max(COPIES), np.uint8)
    kind = cuda.cudaMemcpyKind.cudaMemcpyDefault
    found = {}

    def copy(source, size):
        call("cudaMemcpyAsync", device, source, size, kind, stream)
        call("cudaStreamSynchronize", stream)

    for size in COPIES:
        found[f"copy {size} B pageable"] = _times(lambda size=size: copy(pageable.ctypes.data, size), 300)
        found[f"copy {size} B pinned"] = _times(lambda size=size: copy(pinned, size), 300)

    def set_bytes(count):
        for _ in range(count):
            call("cudaMemsetAsync", device, 0, 4, stream)

    def eager(count):
        set_bytes(count)
        call("cudaStreamSynchronize", stream)

    for count in (1, 100):
        found[f"{count} small steps, one by one"] = _times(lambda count=count: eager(count), 300)
        call("cudaStreamBeginCapture", stream, cuda.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal)
        set_bytes(count)
        graph = call("cudaGraphInstantiate", call("cudaStreamEndCapture", stream), 0)

        def replay(graph=graph):
            call("cudaGraphLaunch", graph, stream)
            call("cudaStreamSynchronize", stream)

        found[f"{count} small steps, as one graph"] = _times(replay, 300)
    half = 1 << 27

    def within():
        call("cudaMemcpyAsync", int(device), int(device) + half, half, kind, stream)
        call("cudaStreamSynchronize", stream)

    seconds = _times(within, 50)["p50"] / 1e3
    found["bytes read and written a second"] = 2 * half / seconds
    for name, value in found.items():
        shown = f"{value['p50'] * 1e3:8.1f} us" if isinstance(value, dict) else f"{value / 1e12:8.2f} TB/s"
        console.print(f"{name:<36} {shown}", highlight=False)
    return found


def _stages(engines, sounds, console: Console) -> dict:
    """Each stage of a turn by itself, on one utterance and one reply."""
    recogniser, language, voice = engines
    sound = max(sounds, key=len)
    sound = sound[: 4 * RATE]
    tokens = recogniser.transcribe(sound).tokens
    networks = recogniser._networks
    found = {}

    def hear():
        with networks.listen(sound.astype(np.float32) / 32768, None):
            networks._gpu.run(networks._gpu.wait)

    found["features and encoder"] = _times(hear, 100)
    found["recognition, nothing known before"] = _times(lambda: recogniser.transcribe(sound), 50)
    found["recognition, its words known before"] = _times(lambda: recogniser.transcribe(sound, guess=tokens), 50)
    found["tokens of it"] = len(tokens)
    context = language.open()
    chat = language.tokenizer
    context.extend([*chat.start(), *chat.turn("system", "You are a friendly voice assistant.")])
    start = len(context)

    def read():
        context.truncate(start)
        context.extend([*chat.turn("user", "What is the capital of France?"), *chat.open_turn("assistant")])
        return next(context.generate(stop=[]))

    found["prompt to first token"] = _times(read, 50)
    taken = []
    for _ in range(5):
        read()
        began = time.perf_counter()
        for _ in context.generate(stop=[], limit=100):
            pass
        taken.append((time.perf_counter() - began) / 100)
    found["token"] = _figures(taken)
    found["first sound of a phrase"] = _times(lambda: next(voice.speak("Sure, I can help with that.")), 50)
    for name, value in found.items():
        if isinstance(value, dict):
            console.print(f"{name:<36} {value['p50']:8.2f} ms, P95 {value['p95']:.2f}", highlight=False)
    return found


def _chain(engines, sounds, texts, partial: bool, console: Console) -> dict:
    """Every utterance answered, in conversations of a few turns."""
    recogniser, language, voice = engines
    parts = {name: [] for name in ("chain_ms", "recognise_ms", "think_ms", "speak_ms")}
    heard, replies = [], []
    for at, sound in enumerate(track(sounds, "answering", console=console, disable=not console.is_terminal)):
        if at % CONVERSATION == 0:
            thinker = Thinker(language)
        thinker.prepare()
        guess = ()
        if partial:
            earlier = recogniser.transcribe(sound[: max(RATE // 2, len(sound) - int(EARLIER_S * RATE))])
            guess = earlier.tokens
            thinker.foresee(" ".join(words(earlier.text).split()[:-1]))
        began = time.perf_counter()
        text = words(recogniser.transcribe(sound, guess=guess).text)
        recognised = time.perf_counter()
        cutter, phrase, reply = PhraseCutter(), None, ""
        cancel = Cancel()
        said = thinker.answer(text or "Hello?", cancel)
        for piece in said:
            reply += piece
            if found := cutter.feed(piece):
                phrase = found[0]
                break
        phrase = phrase or next(iter(cutter.end()), "Yes.")
        thought = time.perf_counter()
        trim = LeadTrimmer(voice.rate)
        for chunk in voice.speak(phrase):
            if len(trim(chunk)):
                break
        ready = time.perf_counter()
        heard.append(text)
        reply += "".join(said)
        replies.append(reply)
        thinker.remember(text, reply.strip())
        if at >= WARM_UP:
            times = (began, recognised, thought, ready)
            for name, one, other in (
                ("chain_ms", began, ready), *zip(list(parts)[1:], times, times[1:], strict=False)
            ):  # fmt: skip
                parts[name].append(other - one)
    from prompts import words as compared

    truth, found = ([" ".join(compared(one)) for one in texts_] for texts_ in (texts, heard))
    result = {name: _figures(taken) for name, taken in parts.items()}
    counted = jiwer.process_words(truth, found)
    result["wrong words"] = counted.substitutions + counted.deletions + counted.insertions
    result["words"] = sum(len(one.split()) for one in truth)
    result["replies"] = replies[:: max(1, len(replies) // 12)]
    return result


def _show(chains: dict, console: Console) -> None:
    table = Table(title="End of speech to the first sound of the reply, ms (median / P95)")
    for name in ("", "chain", "recognise", "think", "speak", "wrong words"):
        table.add_column(name, justify="left" if not name else "right")
    for name, chain in chains.items():
        cells = (f"{chain[part]['p50']:.1f} / {chain[part]['p95']:.1f}" for part in list(chain)[:4])
        table.add_row(name, *cells, f"{chain['wrong words']} of {chain['words']}")
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
