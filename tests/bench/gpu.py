"""The chain on an NVIDIA GPU: what launches, copies and each stage take, and from the end of speech to sound.

    python tests/bench/gpu.py [--speech FILE] [--cpu] [--shape 8b] [--sessions 32] [--turns 200] [--json FILE]
    python tests/bench/gpu.py --collect FILE [--turns 200]

A GPU machine often has no network: `--collect` writes the utterances of the response bench, at 16 kHz with their words,
into a file for `--speech`, and needs no GPU. There is no board here, and nothing is speculated on: a turn begins with
all of its sound in memory and ends with the first of the reply's that can be heard (`chain_ms`, docs/timing.md). As in
a conversation, what was said up to half a second before the end has been recognised by then, and the language model has
read its prompt; the row "at once" does without the former. `--cpu` has the CPU's recogniser hear the same.

`--sessions N` has N conversations share the GPU for --seconds, and then N turns end almost at once, five times.

`--shape 8b` also measures a model of Llama 3 8B's dimensions with random weights: its speed alone means anything.
"""

import argparse
import json
import platform
import sys
import tempfile
import threading
import time
from pathlib import Path

import jiwer
import large_shape
import numpy as np
from prompts import words as compared
from rich.console import Console
from rich.progress import track
from rich.table import Table

from voxpath import models
from voxpath.engines.cancel import Cancel
from voxpath.engines.cuda import device
from voxpath.errors import VoxpathError
from voxpath.speech.phrases import PhraseCutter
from voxpath.speech.recognise import words
from voxpath.speech.speak import LeadTrimmer
from voxpath.speech.think import Thinker

RATE = 16000
EARLIER_S = 0.5  # before the end of the sound, the last partial recognition
CONVERSATION = 8  # turns before a new one begins
WARM_UP = 5  # turns that do not count
CPU_WORDS = "wrong words of the CPU"
PRECISIONS = (("float32", "float32"), ("float16", "float16"), ("float16", "float32"), ("float16", "blocks"))
STEPS = ("recognise_ms", "think_ms", "speak_ms")
SPEECH_S, PERIOD_S, BURST_S = 3.0, 8.0, 0.05  # of the sessions; the period is a mean
TARGETS = {"chain p50": 25.0, "chain p95": 35.0, "token": 1.2}
COPIES = (128, 640, 65536)  # bytes: an event, a frame of 20 ms, a second and more of sound


def main() -> int:
    args = _options()
    console = Console()
    try:
        if args.collect:
            return _collect(Path(args.collect), args.turns, console)
        sounds, texts = _speech(args)
        results = {"machine": f"{device.describe()}, Python {platform.python_version()}"}
        console.print(results["machine"], highlight=False)
        results["primitives"] = _primitives(console)
        with console.status("loading the models"):
            engines = _engines("cuda")
        results["stages"] = _stages(engines, sounds, console)
        results["chain"] = {
            "with partial recognition": _chain(engines, sounds, texts, True, console),
            "at once": _chain(engines, sounds, texts, False, console),
        }
        results["precisions"] = _precisions(sounds, texts, console)
        if args.cpu:
            recogniser = _engines("cpu")[0]
            results[CPU_WORDS] = _wrong([recogniser.transcribe(one).text for one in sounds], texts)[0]
            console.print(f"the CPU's recogniser: {results[CPU_WORDS]} words wrong", highlight=False)
        if args.sessions:
            results["sessions"] = _sessions(engines, sounds, args.sessions, args.seconds, console)
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
    options.add_argument("--sessions", type=int, default=0)
    options.add_argument("--seconds", type=float, default=300.0)
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
    memory = call("cudaMalloc", 1 << 28)
    pinned = call("cudaMallocHost", max(COPIES))
    pageable = np.zeros(max(COPIES), np.uint8)
    kind = cuda.cudaMemcpyKind.cudaMemcpyDefault
    found = {}

    def copy(source, size):
        call("cudaMemcpyAsync", memory, source, size, kind, stream)
        call("cudaStreamSynchronize", stream)

    for size in COPIES:
        found[f"copy {size} B pageable"] = _times(lambda size=size: copy(pageable.ctypes.data, size), 300)
        found[f"copy {size} B pinned"] = _times(lambda size=size: copy(pinned, size), 300)

    def set_bytes(count):
        for _ in range(count):
            call("cudaMemsetAsync", memory, 0, 4, stream)

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
        call("cudaMemcpyAsync", int(memory), int(memory) + half, half, kind, stream)
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
    turns, replies = [], []
    for at, sound in enumerate(track(sounds, "answering", console=console, disable=not console.is_terminal)):
        if at % CONVERSATION == 0:
            thinker = Thinker(engines[1])
        guess = _earlier(engines, thinker, sound[: -int(EARLIER_S * RATE)]) if partial else ()
        turn = Turn(engines, thinker, sound, guess)
        replies.append(turn.finish())
        turns.append(turn)
    steps = np.array([np.diff(turn.times) for turn in turns[WARM_UP:]])
    result = {"chain_ms": _figures(steps.sum(axis=1))}
    result |= {name: _figures(taken) for name, taken in zip(STEPS, steps.T, strict=True)}
    result["wrong words"], result["words"] = _wrong([turn.text for turn in turns], texts)
    result["replies"] = replies[:: max(1, len(replies) // 12)]
    return result


def _wrong(heard: list[str], texts: list[str]) -> tuple[int, int]:
    """Words to insert, delete or replace, and how many were said."""
    truth, found = ([" ".join(compared(one)) for one in many] for many in (texts, heard))
    counted = jiwer.process_words(truth, found)
    wrong = counted.substitutions + counted.deletions + counted.insertions
    return wrong, sum(len(one.split()) for one in truth)


def _precisions(sounds, texts, console: Console) -> dict:
    """The recogniser in several number types: what it takes, what it gets wrong, how large it is."""
    from voxpath.engines.cuda.device import Gpu
    from voxpath.engines.cuda.whisper import recogniser_on
    from voxpath.models import whisper_gpu

    found = {}
    for encoder, decoder in PRECISIONS:
        with tempfile.TemporaryDirectory() as folder:
            whisper_gpu.export(models.default_whisper(), Path(folder), encoder=encoder, decoder=decoder)
            size = sum(path.stat().st_size for path in Path(folder).iterdir())
            recogniser = recogniser_on(Gpu("precision", urgent=True), Path(folder))
        taken, heard = [], []
        for sound in sounds:
            began = time.perf_counter()
            heard.append(recogniser.transcribe(sound).text)
            taken.append(time.perf_counter() - began)
        name = f"encoder {encoder}, decoder {decoder}"
        found[name] = _figures(taken[WARM_UP:]) | {"wrong words": _wrong(heard, texts)[0], "bytes": size}
        console.print(
            f"{name:<36} {found[name]['p50']:8.2f} ms, P95 {found[name]['p95']:.2f}, "
            f"{found[name]['wrong words']} words wrong, {size / 1e6:.0f} MB",
            highlight=False,
        )
    return found


def _earlier(engines, thinker: Thinker, sound: np.ndarray) -> list[int]:
    """What is done while somebody speaks: the tokens heard so far; the language model reads the words."""
    thinker.prepare()
    heard = engines[0].transcribe(sound) if len(sound) else None
    if heard is None:
        return []
    thinker.foresee(" ".join(words(heard.text).split()[:-1]))
    return heard.tokens


class Turn:
    """A turn up to the first sound of its reply; `times` are the ends of its steps and, first, when it began."""

    def __init__(self, engines, thinker: Thinker, sound: np.ndarray, guess) -> None:
        recogniser, _, self._voice = engines
        self._thinker, self._cutter = thinker, PhraseCutter()
        self.times = [time.perf_counter()]
        self.text = words(recogniser.transcribe(sound, guess=guess).text)
        self.times.append(time.perf_counter())
        self._reply = thinker.answer(self.text or "Hello?", Cancel())
        self._said = ""
        phrase = self._phrase()
        self.times.append(time.perf_counter())
        trim = LeadTrimmer(self._voice.rate)
        self._sound = self._voice.speak(phrase)
        any(len(trim(chunk)) for chunk in self._sound)
        self.times.append(time.perf_counter())

    def _phrase(self) -> str:
        for piece in self._reply:
            self._said += piece
            if found := self._cutter.feed(piece):
                return found[0]
        return next(iter(self._cutter.end()), "Yes.")

    def finish(self) -> str:
        """The rest of the reply, said and remembered."""
        for _ in self._sound:
            pass
        rest = "".join(self._reply)
        for chunk in self._voice.speak(rest):
            del chunk
        self._said += rest
        self._thinker.remember(self.text, self._said.strip())
        return self._said


def _sessions(engines, sounds, count: int, seconds: float, console: Console) -> dict:
    """Conversations that share the GPU: people who speak for 3 s, hear the reply and pause, each at random."""
    taken: list[float] = []
    thinkers = [Thinker(engines[1]) for _ in range(count)]
    began = time.perf_counter()

    def talk(number: int) -> None:
        rng = np.random.default_rng(number)
        while True:
            time.sleep(rng.exponential(PERIOD_S - SPEECH_S))
            if time.perf_counter() - began > seconds:
                return
            sound = np.resize(sounds[rng.integers(len(sounds))], int(SPEECH_S * RATE))
            guess = ()
            spoken = time.perf_counter()
            for end in np.arange(EARLIER_S, SPEECH_S, EARLIER_S):
                time.sleep(max(0.0, spoken + end - time.perf_counter()))
                guess = _earlier(engines, thinkers[number], sound[: int(end * RATE)])
            time.sleep(max(0.0, spoken + SPEECH_S - time.perf_counter()))
            turn = Turn(engines, thinkers[number], sound, guess)
            taken.append(turn.times[-1] - turn.times[0])
            turn.finish()

    _together(talk, count)
    result = {"sessions": count, "seconds": seconds, "chain_ms": _figures(taken)}
    burst: list[float] = []

    def at_once(number: int) -> None:
        thinkers[number].prepare()
        time.sleep(0.5 + np.random.default_rng(number).uniform(0, BURST_S))
        turn = Turn(engines, thinkers[number], np.resize(sounds[number], int(SPEECH_S * RATE)), ())
        burst.append(turn.times[-1] - turn.times[0])

    for _ in range(5):
        _together(at_once, count)
    result["burst_ms"] = _figures(burst) | {"max": 1e3 * max(burst)}
    chain, many = result["chain_ms"], result["burst_ms"]
    console.print(
        f"{count} sessions: {chain['n']} turns, chain {chain['p50']:.1f} ms, P95 {chain['p95']:.1f}; "
        f"all within {1e3 * BURST_S:g} ms: {many['p50']:.0f} ms, P95 {many['p95']:.0f}, longest {many['max']:.0f}",
        highlight=False,
    )
    return result


def _together(work, count: int) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _show(chains: dict, console: Console) -> None:
    table = Table(title="End of speech to the first sound of the reply, ms (median / P95)")
    for name in ("", "chain", "recognise", "think", "speak", "wrong words"):
        table.add_column(name, justify="left" if not name else "right")
    for name, chain in chains.items():
        cells = (f"{chain[part]['p50']:.1f} / {chain[part]['p95']:.1f}" for part in ("chain_ms", *STEPS))
        table.add_row(name, *cells, f"{chain['wrong words']} of {chain['words']}")
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
