"""What each form of the language model's weights costs and keeps, against its float32 form, on one CPU thread.

    python tests/bench/weights.py [--prompts 300]

Every form is made from the same GGUF file (4 bits with a scale and a minimum for each 32 weights, the embedding in 8
bits) and answers the same prompts, made of templates and word lists. The reference's own greedy replies are given to
every form token by token; as long as a form would have chosen the same, that is what it would have said by itself.

Times are those of the computing thread, so that what other programs take is left out; the forms take turns. "first
token" begins with the conversation so far in memory and 12 tokens to read, "first phrase" ends 4 tokens later. Results
also go to build/bench/weights.json. Quick look: --prompts 20.
"""

import argparse
import itertools
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, ReaderTensor
from rich.console import Console
from rich.table import Table

from voxpath import cli, models
from voxpath.engines import ort
from voxpath.models import blocks, llama, recordings
from voxpath.models.blocks import BLOCK
from voxpath.models.graph import MICROSOFT, Graph
from voxpath.speech.think import DEFAULT_SYSTEM
from voxpath.timing.report import machine

RESULTS = Path(__file__).resolve().parents[2] / "build" / "bench" / "weights.json"
FIRST = 16  # reply tokens that must all be equal
REPLY = 24  # tokens of a reply that are compared
DIVERGENCE_PROMPTS = 50  # the reference's whole distributions are large
ROUNDS = 15
PREFILL = 36
PHRASE = 5  # tokens: three words and a little more
SAID = "What is the capital of France?"

# ---- prompts ---------------------------------------------------------------------------------------------------------

THINGS = [
    "a kettle",
    "a bicycle",
    "a violin",
    "a telephone",
    "a mirror",
    "a radio",
    "a lift",
    "a camera",
    "a compass",
    "a fridge",
]
PLACES = ["France", "Japan", "Canada", "Egypt", "Brazil", "Norway", "Kenya", "India", "Peru", "Australia"]
FOODS = ["rice", "pancakes", "an omelette", "tomato soup", "lasagne", "fried eggs", "a salad", "apple pie"]
TASKS = ["call the dentist", "water the plants", "buy milk", "pay the rent", "feed the cat", "book a table"]
TIMES = ["in ten minutes", "at seven", "tomorrow morning", "on Friday", "after lunch"]
FEELINGS = ["tired", "happy", "bored", "nervous", "hungry", "lonely", "cold", "proud"]
PEOPLE = ["my sister", "my neighbour", "our teacher", "the postman", "my boss", "a friend"]
ANIMALS = ["dogs", "cats", "penguins", "bees", "whales", "horses", "owls"]
NUMBERS = ["three", "seven", "twelve", "nineteen", "forty"]
TEMPLATES = (
    ("How does {} work?", THINGS),
    ("Who invented {}, and when?", THINGS),
    ("Explain {} to a child.", THINGS),
    ("What is the capital of {}?", PLACES),
    ("How many people live in {}?", PLACES),
    ("How far is it from {} to {}?", PLACES, PLACES),
    ("What should I see in {} {}?", PLACES, ("in spring", "in a week")),
    ("How do I make {}?", FOODS),
    ("I would like to eat {} {}.", FOODS, ("tonight", "but I have no oven", "with my children")),
    ("Remind me to {} {}.", TASKS, TIMES),
    ("Did I {} yesterday?", TASKS),
    ("I feel a bit {} {}.", FEELINGS, ("today", "this evening", "because of the weather")),
    ("Why do people get {}?", FEELINGS),
    ("I am going to meet {} {}.", PEOPLE, TIMES),
    ("What could I give {} as a present?", PEOPLE),
    ("Tell me a joke about {}.", ANIMALS),
    ("What do {} eat {}?", ANIMALS, ("in winter", "at night")),
    ("Can {} see colours?", ANIMALS),
    ("What is {} times {}?", NUMBERS, NUMBERS),
    ("Set a timer for {} minutes.", NUMBERS),
)


def prompts(count: int) -> list[str]:
    """The first `count` distinct things that people say, in an order that is always the same."""
    choices = [(text, words) for text, *lists in TEMPLATES for words in itertools.product(*lists)]
    said = [text.format(*words) for text, words in choices if len(set(words)) == len(words)]
    random.Random(0).shuffle(said)
    return said[:count]


# ---- forms -----------------------------------------------------------------------------------------------------------


def one_part(matrix: Callable[[ReaderTensor], tuple], level: int = 4, size: int = BLOCK) -> llama.Form:
    """Blocks of `size`, activations rounded to 8 bits (`level` 4) or not at all (1).

    `matrix(tensor)` gives bits, integers uint8 [outputs, blocks, size], scales, and zero points or offsets (a term for
    each whole block, float32) or None.
    """

    def multiply(graph: Graph, x: str, tensors: list[ReaderTensor]) -> str:
        kinds, *arrays = zip(*(matrix(tensor) for tensor in tensors), strict=True)
        values, scales, rest = (None if part[0] is None else np.concatenate(part) for part in arrays)
        # The head may be the embedding, whose blocks are always of 32.
        name, bits = tensors[0].name if size == BLOCK else f"{tensors[0].name}.{size}", kinds[0]
        if bits == 32:
            return graph.op("MatMul", x, graph.weight(f"{name}.T", values.T))
        if bits == 4:
            values = values[..., 0::2] | values[..., 1::2] << 4
            name = f"{name}.4bit"
        stored = [graph.weight(f"{name}.q", values), graph.weight(f"{name}.scale", scales)]
        if rest is not None and rest.dtype == np.uint8:
            if bits == 4:
                rest = np.pad(rest, ((0, 0), (0, rest.shape[1] % 2)))
                rest = rest[:, 0::2] | rest[:, 1::2] << 4
            stored.append(graph.weight(f"{name}.zero", rest))
        sizes = {"K": scales.shape[1] * size, "N": len(scales), "bits": bits, "block_size": size}
        y = graph.op("MatMulNBits", x, *stored, domain=MICROSOFT, accuracy_level=level, **sizes)
        if rest is None or rest.dtype == np.uint8:
            return y
        sums = graph.op("ReduceSum", graph.reshape(x, 0, 0, -1, size), graph.ints(-1), keepdims=0)
        return graph.op("Add", y, graph.op("MatMul", sums, graph.weight(f"{name}.offset", rest.T)))

    return llama.Form(llama.IN_BLOCKS.look_up, multiply)


def is_four_bits(tensor: ReaderTensor) -> bool:
    return tensor.tensor_type == GGMLQuantizationType.Q4_1


def as_stored(tensor: ReaderTensor) -> tuple:
    if is_four_bits(tensor):
        return 4, *llama.unpack_four_bits(tensor)
    return 8, *llama.eight_bits(tensor)


def float_head(tensor: ReaderTensor) -> tuple:
    """As stored, but the head as float32: the runtime has no quick 8-bit product with float activations."""
    return as_stored(tensor) if is_four_bits(tensor) else (32, llama.floats(tensor), None, None)


def rounded_to_eight(tensor: ReaderTensor) -> tuple:
    return 8, *llama.eight_bits(tensor)


def fitted(size: int = BLOCK, search: bool = True, head: bool = False) -> Callable[[ReaderTensor], tuple]:
    """4 bits with an integer zero point, which cannot hold a block's minimum exactly.

    With `search`, scale and zero point of each block are those of some 25 that leave the least squared error; else they
    come from the block's least and greatest value. `head` rounds the head as well.
    """

    def matrix(tensor: ReaderTensor) -> tuple:
        if not is_four_bits(tensor) and not head:
            return as_stored(tensor)
        weights = llama.floats(tensor)
        weights = weights.reshape(len(weights), -1, size)
        low, high = np.minimum(weights.min(-1), 0), np.maximum(weights.max(-1), 0)
        step = np.where(high > low, (high - low) / 15, 1).astype(np.float32)
        best = [np.full(step.shape, np.inf, np.float32), step, np.zeros(step.shape, np.float32)]
        for factor, shift in itertools.product(np.linspace(0.8, 1.12, 9), (-0.5, 0, 0.5)) if search else [(1, 0)]:
            scale = (step * factor).astype(np.float32)
            zero = np.clip(np.rint(-low / scale + shift), 0, 15)
            steps = np.clip(np.rint(weights / scale[..., None]), -zero[..., None], 15 - zero[..., None])
            error = ((steps * scale[..., None] - weights) ** 2).sum(-1)
            better = error < best[0]
            best = [np.where(better, new, old) for new, old in zip((error, scale, zero), best, strict=True)]
        _, scale, zero = best
        values = np.clip(np.rint(weights / scale[..., None]) + zero[..., None], 0, 15)
        return 4, values.astype(np.uint8), scale, zero.astype(np.uint8)

    def of_one_size(tensor: ReaderTensor) -> tuple:
        bits, values, scales, rest = matrix(tensor)
        if size == BLOCK or is_four_bits(tensor) or head:
            return bits, values, scales, rest
        # The head's blocks of 32 are two of 16 with the same scale.
        return (
            bits,
            values.reshape(len(values), -1, size),
            *(np.repeat(part, BLOCK // size, 1) for part in (scales, rest)),
        )

    return of_one_size


def eight_bits_in_two_parts() -> llama.Form:
    def multiply(graph: Graph, x: str, tensors: list[ReaderTensor]) -> str:
        parts = blocks.in_two_parts(graph, x, int(tensors[0].shape[0]))
        matrices = [np.concatenate(part) for part in zip(*map(llama.eight_bits, tensors), strict=True)]
        y = blocks.multiply(graph, parts, tensors[0].name, 8, *matrices)
        return graph.op("Sum", *graph.op("Split", y, out=[f"{y}.a", f"{y}.b"], axis=1, num_outputs=2))

    return llama.Form(llama.IN_BLOCKS.look_up, multiply)


REFERENCE = "float32"
FORMS = {
    REFERENCE: llama.EXACT,
    "4 bit as stored, activations 8 bit": llama.in_blocks(lambda name: False),
    "the same, but 16 bit into q, k, v and head (the product's)": llama.IN_BLOCKS,
    "the same, and into down": llama.in_blocks(lambda name: llama.is_sensitive(name) or "ffn_down" in name),
    "4 bit as stored, activations 16 bit": llama.in_blocks(lambda name: True),
    "4 bit as stored, activations float (level 1), head float32": one_part(float_head, level=1),
    "8 bit, activations 8 bit": one_part(rounded_to_eight),
    "8 bit, activations 16 bit": eight_bits_in_two_parts(),
    "4 bit fitted anew, integer zero points": one_part(fitted()),
    "4 bit fitted anew, blocks of 16": one_part(fitted(16), size=16),
    "4 bit by least and greatest value": one_part(fitted(search=False)),
    "4 bit fitted anew, the head too": one_part(fitted(head=True)),
}

# ---- measuring -------------------------------------------------------------------------------------------------------


@dataclass
class Row:
    """One form's figures; times in ms of the computing thread."""

    form: str
    megabytes: float
    load_ms: float
    equal_replies: float = 0.0  # share of prompts whose first FIRST tokens are all the reference's
    equal_tokens: float = 0.0  # share of next tokens, along the reference's replies
    divergence: float = 0.0  # mean Kullback-Leibler divergence from the reference's distributions, nats
    perplexity_replies: float = 0.0
    perplexity_english: float = 0.0
    prefill_ms: list[float] = field(default_factory=list)
    first_token_ms: list[float] = field(default_factory=list)
    first_phrase_ms: list[float] = field(default_factory=list)
    token_ms: list[float] = field(default_factory=list)


@dataclass
class Reply:
    """What the reference says to a prompt: tokens, its likeliest token at each place, and for some all log odds."""

    prompt: list[int]
    tokens: list[int]
    likeliest: np.ndarray
    logs: np.ndarray | None


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def following(context, tokens: list[int]) -> np.ndarray:
    """Log odds [n, vocabulary] of what comes at the place of each token, after those before it. The context stays."""
    length, first = len(context), context._logits
    rows = context._step(tokens[:-1], list(range(len(tokens) - 1)), None) if len(tokens) > 1 else first[None][:0]
    context._computed, context._logits = length, first
    return log_softmax(np.concatenate([first[None], rows]))


def user_prefix(chat) -> list[int]:
    return [*chat.start(), *chat.turn("system", DEFAULT_SYSTEM), *chat.open_turn("user")]


def question(chat, text: str) -> list[int]:
    return [*chat.encode(text), *chat.close_turn(), *chat.open_turn("assistant")]


def reference_replies(language, texts: list[str], progress) -> list[Reply]:
    chat, replies = language.tokenizer, []
    context = language.open()
    context.extend(user_prefix(chat))
    length = len(context)
    for at, text in enumerate(texts):
        progress("the reference's replies", at / len(texts))
        context.truncate(length)
        prompt = question(chat, text)
        context.extend(prompt)
        tokens = [token for block in context.generate(limit=REPLY) for token in block]
        tokens += [chat.stop[0]] if len(tokens) < REPLY else []
        context.truncate(length)
        context.extend(prompt)
        logs = following(context, tokens)
        kept = logs if at < DIVERGENCE_PROMPTS else None
        replies.append(Reply(prompt, tokens, logs.argmax(-1), kept))
    return replies


def judge(row: Row, language, replies: list[Reply], progress) -> None:
    """Fill in how a form compares with the reference."""
    context = language.open()
    context.extend(user_prefix(language.tokenizer))
    length = len(context)
    equal, likelihoods, divergences = [], [], []
    for at, reply in enumerate(replies):
        progress(row.form, at / len(replies))
        context.truncate(length)
        context.extend(reply.prompt)
        logs = following(context, reply.tokens)
        equal.append(logs.argmax(-1) == reply.likeliest)
        likelihoods.append(logs[np.arange(len(logs)), reply.tokens])
        if reply.logs is not None:
            divergences.append((np.exp(reply.logs) * (reply.logs - logs)).sum(-1))
    row.equal_replies = float(np.mean([same[:FIRST].all() for same in equal]))
    row.equal_tokens = float(np.concatenate(equal).mean())
    row.divergence = float(np.concatenate(divergences).mean())
    row.perplexity_replies = float(np.exp(-np.concatenate(likelihoods).mean()))
    english = language.tokenizer.encode(recordings.TWO_CITIES_TEXT)
    context = language.open()
    context.extend(english[:1])
    row.perplexity_english = float(np.exp(-context.score(english[1:]).mean()))


def clock(row: Row, language) -> None:
    """One round of times."""
    chat, now = language.tokenizer, time.thread_time
    context = language.open()
    start = now()
    context.extend([*user_prefix(chat), *question(chat, SAID)][:PREFILL])
    row.prefill_ms.append(1e3 * (now() - start))
    context = language.open()
    context.extend(user_prefix(chat))
    read = question(chat, SAID)
    times = [now()]
    context.extend(read)
    for _ in context.generate(stop=[], limit=REPLY):
        times.append(now())
    steps = 1e3 * np.diff(times)
    row.first_token_ms.append(float(steps[0]))
    row.first_phrase_ms.append(float(steps[:PHRASE].sum()))
    row.token_ms += [float(step) for step in steps[1:]]


def table(rows: list[Row]) -> Table:
    shown = Table(title=f"The language model's weights, {machine()}, one thread", show_lines=True)
    shown.add_column("form", min_width=28)
    for name in (
        f"first {FIRST}\ntokens\nequal", "next\ntokens\nequal", "diver-\ngence,\nnats", "perplex-\nity,\nreplies",
        "perplex-\nity,\nEnglish", f"read {PREFILL}\ntokens,\nms", "first\ntoken,\nms", "first\nphrase,\nms",
        "tokens/s\nmedian", "tokens/s\nP95", "MB", "load,\nms",
    ):  # fmt: skip
        shown.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        times = (np.median(ms) for ms in (row.prefill_ms, row.first_token_ms, row.first_phrase_ms))
        shown.add_row(
            row.form,
            f"{100 * row.equal_replies:.1f} %",
            f"{100 * row.equal_tokens:.2f} %",
            f"{row.divergence:.5f}",
            f"{row.perplexity_replies:.3f}",
            f"{row.perplexity_english:.2f}",
            *(f"{ms:.1f}" for ms in times),
            f"{1e3 / np.median(row.token_ms):.0f}",
            f"{1e3 / np.percentile(row.token_ms, 95):.0f}",
            f"{row.megabytes:.0f}",
            f"{row.load_ms:.0f}",
        )
    return shown


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=300, help="how many prompts, at most 340 or so (default 300)")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 150)
    texts = prompts(max(1, options.prompts))
    rows, languages, replies = [], [], []
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with cli.Progress(console) as progress, tempfile.TemporaryDirectory(dir=RESULTS.parent) as scratch:
        source = models.default_gguf(progress)
        for at, (name, form) in enumerate(FORMS.items()):
            progress("making the forms", at / len(FORMS))
            folder = Path(scratch) / str(at)
            folder.mkdir()
            llama.export(source, folder, form=form)
            start = time.thread_time()
            languages.append(ort.language(folder))
            load_ms = 1e3 * (time.thread_time() - start)
            size = sum(path.stat().st_size for path in folder.iterdir())
            rows.append(Row(name, size / 1e6, load_ms))
            replies = replies or reference_replies(languages[0], texts, progress)
            judge(rows[-1], languages[-1], replies, progress)
        for turn in range(ROUNDS):
            progress("taking times", turn / ROUNDS)
            for row, language in zip(rows, languages, strict=True):
                clock(row, language)
    console.print(table(rows))
    tokens = sum(len(reply.tokens) for reply in replies)
    console.print(f"{len(texts)} prompts, {tokens} tokens of replies", highlight=False)
    RESULTS.write_text(
        json.dumps(
            {"machine": machine(), "prompts": len(texts), "tokens": tokens, "rows": [asdict(row) for row in rows]}
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
