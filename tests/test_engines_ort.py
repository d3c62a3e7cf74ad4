"""The three engines with the real default weights (fetched once; `make test` does so before it starts)."""

import re
import shutil
import threading
import time

import numpy as np
import pytest
import soundfile
import soxr

from voxpath import models
from voxpath.engines import hibari, ort, whisper
from voxpath.engines.cancel import Cancel, Cancelled
from voxpath.engines.ort import session
from voxpath.models import recordings

SYSTEM = "You are a helpful voice assistant. Answer in one or two short sentences."


@pytest.fixture(scope="module")
def recogniser():
    return ort.recogniser(models.default_asr())


@pytest.fixture(scope="module")
def language():
    return ort.language(models.default_llm())


@pytest.fixture(scope="module")
def voice():
    return ort.voice(models.default_tts())


@pytest.fixture(scope="module")
def two_cities():
    """16 kHz int16."""
    pcm, rate = soundfile.read(recordings.two_cities(), dtype="int16")
    return soxr.resample(pcm, rate, 16000)


def words(text):
    return re.sub(r"[^a-z ]+", " ", text.lower()).split()


def distance(said, heard):
    """Words to insert, delete or replace."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(said, 1):
        above, row[0] = row[0], i
        for j, other in enumerate(heard, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (word != other))
    return row[-1]


def interrupted_after(seconds, work):
    """Runs `work(cancel)`, set from another thread; returns how long it went on for after that."""
    cancel, when = Cancel(), []

    def stop():
        when.append(time.perf_counter())
        cancel.set()

    timer = threading.Timer(seconds, stop)
    timer.start()
    try:
        with pytest.raises(Cancelled):
            work(cancel)
    finally:
        timer.cancel()
    return time.perf_counter() - when[0]


# ---- recogniser


def test_a_minute_of_reading_is_understood(recogniser, two_cities):
    said = words(recordings.TWO_CITIES_TEXT)
    heard = recogniser.transcribe(two_cities)
    assert distance(said, words(heard.text)) <= 2
    assert heard.confidence > 0.8
    assert [word.text for word in heard.words] == heard.text.split()
    starts = [word.start for word in heard.words]
    assert starts == sorted(starts) and starts[0] >= 0 and heard.words[-1].end <= len(two_cities) / 16000
    # Estimates, but of the right part of the recording: "superlative" is near its end.
    assert next(word.start for word in heard.words if word.text == "superlative") > 35


def test_int16_and_float_are_the_same_sound(recogniser, two_cities):
    piece = two_cities[:40000]
    assert recogniser.transcribe(piece) == recogniser.transcribe(piece.astype(np.float64) / 32768)


@pytest.mark.parametrize("seconds", [0, 0.01, 1, 9])
def test_silence_is_nothing(recogniser, seconds):
    assert recogniser.transcribe(np.zeros(int(16000 * seconds), np.int16)).text == ""


@pytest.mark.parametrize("level", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("colour", ["white", "brown", "tone"])
def test_noise_is_nothing(recogniser, level, colour):
    noise = np.random.default_rng(1).standard_normal(32000)
    if colour == "brown":
        noise = np.cumsum(noise) - np.cumsum(noise).mean()
    if colour == "tone":
        noise = np.sin(2 * np.pi * 440 / 16000 * np.arange(32000))
    assert recogniser.transcribe(noise / noise.std() * level).text == ""


def test_speech_in_noise_is_not_taken_for_noise(recogniser, two_cities):
    piece = two_cities[: 16000 * 4] / 32768
    noise = np.random.default_rng(2).standard_normal(len(piece)) * piece.std() * 10 ** (-5 / 20)
    assert "best of times" in recogniser.transcribe(piece + noise).text


def test_text_that_came_before_guides_the_spelling(recogniser, voice):
    pcm = np.concatenate(list(voice.speak("My name is Catherine Smyth.")))
    pcm = soxr.resample(pcm, voice.rate, recogniser.rate)
    plain = recogniser.transcribe(pcm).text
    guided = recogniser.transcribe(pcm, prompt="The caller is Kathryn Smyth. Kathryn Smyth called before.").text
    assert "Kathryn" not in plain and "Kathryn" in guided


def test_recognition_can_be_stopped(recogniser, two_cities):
    assert interrupted_after(0.05, lambda cancel: recogniser.transcribe(two_cities, cancel=cancel)) < 1


def test_a_network_is_stopped_in_the_middle_of_a_run():
    encoder = session.load(models.default_asr() / "encoder.onnx")
    mel = np.zeros((1, 80, 3000), np.float32)  # over 100 ms of work
    interrupted_after(0.02, lambda cancel: session.run(encoder, {"mel": mel}, cancel))


def test_long_recordings_are_cut_where_it_is_quiet():
    rng = np.random.default_rng(3)
    samples = rng.standard_normal(16000 * 70).astype(np.float32) * 0.1
    for pause, level in ((24.0, 0.001), (26.0, 0.01), (50.0, 0.01)):
        samples[int(pause * 16000) : int((pause + 0.3) * 16000)] *= level
    cuts = whisper._cuts(samples, 16000 * 29)
    assert cuts[-1] == len(samples)
    assert all(abs(cut / 16000 - pause - 0.15) < 0.15 for cut, pause in zip(cuts, (24.0, 50.0), strict=False))
    assert max(np.diff([0, *cuts])) <= 16000 * 29


@pytest.mark.parametrize(
    ("tokens", "kept"), [([1, 2, 3], 0), ([5, 7, 7, 7, 7], 2), ([9, *[1, 2, 3] * 4], 4), ([1, 2] * 3, 0), ([4] * 3, 0)]
)
def test_a_decoder_that_goes_round_is_stopped(tokens, kept):
    assert whisper._repeats(tokens) == kept


# ---- language model


def ask(language, question, limit=40):
    chat = language.tokenizer
    context = language.open()
    context.extend([*chat.start(), *chat.turn("system", SYSTEM), *chat.turn("user", question)])
    context.extend(chat.open_turn("assistant"))
    return chat.decode(token for block in context.generate(limit=limit) for token in block)


def test_the_capital_of_france_is_paris(language):
    assert "Paris" in ask(language, "What is the capital of France?")


def test_a_prefix_that_was_kept_gives_the_same_answer(language):
    chat = language.tokenizer
    context = language.open()
    context.extend([*chat.start(), *chat.turn("system", SYSTEM)])
    prefix = len(context)
    answers = []
    for question in ("Name a colour.", "What is the capital of France?", "Name a colour."):
        context.truncate(prefix)
        context.extend([*chat.turn("user", question), *chat.open_turn("assistant")])
        answers.append(chat.decode(token for block in context.generate(limit=20) for token in block))
    assert answers[0] == answers[2] and "Paris" in answers[1]


def test_sense_is_likelier_than_nonsense(language):
    chat = language.tokenizer
    context = language.open()
    context.extend(chat.encode("The opposite of hot is"))
    assert context.score(chat.encode(" cold")).sum() > context.score(chat.encode(" banana")).sum() + 3


def test_reading_can_be_stopped(language):
    context = language.open()
    context.extend([0])
    assert interrupted_after(0.1, lambda cancel: context.extend([100] * 800, cancel)) < 1
    assert context.tokens == [0]


def test_a_speculation_can_be_stopped_while_another_context_goes_on(language):
    chat = language.tokenizer
    mine, cancel, told = language.open(), Cancel(), []
    mine.extend([*chat.turn("user", "Tell me a long story."), *chat.open_turn("assistant")])

    def speculate():
        other = mine.fork()
        try:
            for _ in other.generate(stop=[], limit=1000, cancel=cancel):
                pass
        except Cancelled:
            told.append("cancelled")

    thread = threading.Thread(target=speculate)
    thread.start()
    said = [token for block in mine.generate(limit=6) for token in block]
    cancel.set()
    thread.join(5)
    assert told == ["cancelled"] and len(said) == 6


# ---- voice


def test_what_is_spoken_is_understood(recogniser, voice):
    text = "The meeting is scheduled for three o'clock tomorrow afternoon in the main office."
    chunks = list(voice.speak(text))
    assert all(chunk.dtype == np.int16 and chunk.ndim == 1 for chunk in chunks)
    heard = recogniser.transcribe(soxr.resample(np.concatenate(chunks), voice.rate, recogniser.rate))
    assert distance(words(text.replace("three o'clock", "3 o'clock")), words(heard.text.replace("three", "3"))) <= 1


def test_a_long_sentence_comes_in_chunks_that_join_without_a_click(voice, monkeypatch):
    text = (
        "One of the most famous facts about the ocean is that it is home to an incredible array of marine life, and "
        * 2
    )
    chunks = list(voice.speak(text))
    assert len(chunks) >= 4
    sound = np.concatenate(chunks).astype(float)
    steps = np.abs(np.diff(sound))
    seams = np.cumsum([len(chunk) for chunk in chunks])[:-1]
    for seam in seams:  # no larger a step at a seam than near it
        assert steps[seam - 1] <= steps[seam - 600 : seam + 600].max() + 1
    assert len(chunks[0]) < voice.rate  # there is something to play long before the end
    monkeypatch.setattr(hibari, "CHUNKS", (10_000,))
    whole = np.concatenate(list(voice.speak(text)))
    assert len(sound) == len(whole)
    # The 8-bit products differ a little, and so the pulses' phase drifts: the loudness of each 10 ms does not.
    frames = len(whole) // 240
    levels = [
        np.log(np.square(x[: frames * 240].reshape(frames, 240)).mean(1) + 100) for x in (sound, whole.astype(float))
    ]
    assert np.corrcoef(*levels)[0, 1] > 0.99


@pytest.mark.parametrize("text", ["", "   ", "...", "?!", "—", '"'])
def test_text_without_words_is_not_spoken(voice, text):
    assert list(voice.speak(text)) == []


def test_the_same_text_is_the_same_sound(voice):
    first, second = (np.concatenate(list(voice.speak("Good morning."))) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_speaking_can_be_stopped(voice):
    text = "It was the best of times, it was the worst of times, " * 20

    def speak(cancel):
        for _ in voice.speak(text, cancel):
            pass

    assert interrupted_after(0.05, speak) < 1


def test_a_broken_cache_says_what_to_delete(tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(models.default_asr(), folder)
    (folder / "decoder.onnx.data").write_bytes(b"cut off")
    with pytest.raises(models.ModelError, match=f"decoder.onnx cannot be loaded .* delete {folder} and try again"):
        ort.recogniser(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(models.ModelError, match="tokenizer.json cannot be loaded"):
        ort.recogniser(folder)
    (folder / "model.json").write_text("{}")
    with pytest.raises(models.ModelError, match="not a converted model"):
        ort.recogniser(folder)


def test_models_that_are_not_there_are_named(tmp_path):
    for what in (models.asr, models.llm, models.tts):
        with pytest.raises(models.ModelError, match="nowhere.* does not exist"):
            what(tmp_path / "nowhere")
