"""The GPU's engines with the CPU in the GPU's place: what they say is what those of the CPU say.

Networks, buffers and steps are the same; only streams and captures are missing. What a GPU makes of them
is measured by tests/bench/gpu.py.
"""

import re

import numpy as np
import onnx
import onnxruntime
import pytest
import soundfile
import soxr
from gguf import GGMLQuantizationType as Kind

from doubles import HostGpu
from test_models_hibari import ASSETS, VOCABULARY
from test_models_llama import CONTEXT, log_probabilities, write
from voxpath import models
from voxpath.engines import ort
from voxpath.engines.cancel import Cancel, Cancelled
from voxpath.engines.cuda.hibari import voice_on
from voxpath.engines.cuda.llama import Language
from voxpath.engines.cuda.whisper import recogniser_on
from voxpath.engines.hibari import HALO
from voxpath.engines.mel import log_mel
from voxpath.errors import ModelError
from voxpath.models import hibari as hibari_model
from voxpath.models import llama, recordings, whisper_gpu
from voxpath.models.graph import Graph

TEXT = [3, 40, 12, 99, 7, 7, 60, 200, 31]


# ---- language model


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Weights, and the model with room for 512 tokens."""
    folder = tmp_path_factory.mktemp("tiny")
    read = write(folder / "tiny.gguf", Kind.F32)
    llama.export(folder / "tiny.gguf", folder, form=llama.EXACT, room=512)
    return read, folder


@pytest.fixture
def language(tiny):
    return Language(HostGpu(), tiny[1])


def greedy(w, tokens, count):
    tokens = list(tokens)
    for _ in range(count):
        tokens.append(int(log_probabilities(w, tokens)[-1].argmax()))
    return tokens[-count:]


def said(context, **options):
    return [token for block in context.generate(stop=[], **options) for token in block]


def test_the_likeliest_continuation_is_that_of_the_formulas(tiny, language):
    context = language.open()
    context.extend(TEXT)
    assert said(context, limit=5) == greedy(tiny[0], TEXT, 5)
    assert context.tokens == [*TEXT, *greedy(tiny[0], TEXT, 5)]


def test_a_context_that_was_cut_and_grown_goes_on_as_a_new_one(tiny, language):
    context = language.open()
    context.extend(TEXT)
    said(context, limit=4)
    context.extend([5, 6, 7])
    whole = list(context.tokens)
    assert said(context, limit=3) == greedy(tiny[0], whole, 3)
    context.truncate(6)
    context.extend([9])
    assert said(context, limit=3) == greedy(tiny[0], [*TEXT[:6], 9], 3)


def test_reading_in_pieces_is_reading_at_once(tiny, language):
    tokens = [int(t) for t in np.random.default_rng(1).integers(3, 250, 150)]  # longer than the largest piece
    whole, pieces = language.open(), language.open()
    whole.extend(tokens)
    for start in range(0, 150, 13):
        pieces.extend(tokens[start : start + 13])
    expected = greedy(tiny[0], tokens, 3)
    assert said(whole, limit=3) == said(pieces, limit=3) == expected


def test_the_probability_of_the_next_token_is_that_of_the_formulas(tiny, language):
    context = language.open()
    context.extend(TEXT)
    expected = np.exp(log_probabilities(tiny[0], TEXT)[-1, 8])
    np.testing.assert_allclose(context.probability(8), expected, rtol=1e-3)
    said(context, limit=2)
    expected = np.exp(log_probabilities(tiny[0], context.tokens)[-1, 8])
    np.testing.assert_allclose(context.probability(8), expected, rtol=1e-3)


def test_a_reply_does_not_go_round(tiny, language):
    context = language.open()
    context.extend(TEXT)
    reply = said(context, limit=80)
    spans = [tuple(reply[i : i + 6]) for i in range(len(reply) - 5)]
    assert len(spans) == len(set(spans))


def test_a_step_that_fails_ahead_of_its_use_spoils_only_what_needs_it(tiny):
    language = Language(HostGpu(), tiny[1])
    context = language.open()
    context.extend(TEXT)
    whole, fails = context._read[1], [True, False]

    def step():
        if fails and fails.pop():
            whole()
        else:
            raise ModelError("the GPU failed")

    context._read[1] = step
    reply = context.generate(stop=[])
    next(reply), next(reply)
    context._read[1] = whole
    context.truncate(len(TEXT))
    assert said(context, limit=3) == greedy(tiny[0], TEXT, 3)


def test_a_stop_token_ends_the_reply(tiny, language):
    context = language.open()
    context.extend(TEXT)
    expected = greedy(tiny[0], TEXT, 8)
    stop = expected[-1]
    assert [t for b in context.generate(stop=[stop]) for t in b] == expected[: expected.index(stop)]


def test_a_reply_that_is_given_up_leaves_the_context_usable(tiny, language):
    context, cancel = language.open(), Cancel()
    context.extend(TEXT)
    reply = context.generate(stop=[], cancel=cancel)
    first = next(reply)
    cancel.set()
    with pytest.raises(Cancelled):
        next(reply)
    assert context.tokens == [*TEXT, *first]
    with pytest.raises(Cancelled):
        context.extend([4, 5], cancel)
    assert context.tokens == [*TEXT, *first]
    assert said(context, limit=2) == greedy(tiny[0], [*TEXT, *first], 2)


def test_more_tokens_than_there_is_room_for_are_refused(language):
    context = language.open()
    context.extend(TEXT)
    with pytest.raises(ModelError, match="more than the 384 that the language model can look back over"):
        context.extend([5] * 400)
    assert context.tokens == TEXT
    context.extend([5] * 370)
    assert len(said(context, limit=100)) == 384 - 379


def test_a_room_is_never_longer_than_what_the_model_was_trained_for(tmp_path):
    write(tmp_path / "tiny.gguf", Kind.F32)
    llama.export(tmp_path / "tiny.gguf", tmp_path, form=llama.EXACT, room=1 << 20)
    assert Language(HostGpu(), tmp_path).room == CONTEXT


# ---- recogniser


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whisper")
    return folder, whisper_gpu.export(models.default_whisper(), folder, encoder="float32", decoder="float32")


@pytest.fixture(scope="module")
def gpu():
    return HostGpu()


@pytest.fixture(scope="module")
def recogniser(gpu, exported):
    return recogniser_on(gpu, exported[0])


@pytest.fixture(scope="module")
def two_cities():
    """16 kHz int16."""
    pcm, rate = soundfile.read(recordings.two_cities(), dtype="int16")
    return soxr.resample(pcm, rate, 16000)


def test_the_encoder_hears_the_features_that_the_cpu_computes(two_cities):
    described = whisper_gpu.Description("", 1, 1, 1, 80, 400, 1, 1, [], 0, 0, 0, [], [])
    graph = Graph("features")
    pcm = graph.input("pcm", "float32", [1, whisper_gpu.samples(described)])
    graph.op("Identity", whisper_gpu._log_mel(graph, pcm, described), out="features")
    graph.output("features", "float32", [1, 80, 400])
    sound = two_cities[: 16000 * 3].astype(np.float32) / 32768
    heard = np.zeros((1, whisper_gpu.samples(described)), np.float32)
    heard[0, 200 : 200 + len(sound)] = sound
    heard[0, :200] = sound[200:0:-1]
    (made,) = onnxruntime.InferenceSession(graph.model().SerializeToString()).run(None, {"pcm": heard})
    np.testing.assert_allclose(made, log_mel(sound, 400), atol=2e-3)


def test_a_sound_is_written_down_as_on_the_cpu(recogniser, two_cities):
    cpu = ort.recogniser(models.default_asr())
    for start, end in ((0, 4.0), (4.0, 7.4), (0.0, 2.0)):  # a shorter one after a longer leaves nothing of it
        piece = two_cities[round(16000 * start) : round(16000 * end)]
        expected, heard = cpu.transcribe(piece), recogniser.transcribe(piece)
        assert re.findall(r"\w+", heard.text.lower()) == re.findall(r"\w+", expected.text.lower())
        assert abs(heard.logprob - expected.logprob) < 0.1 and abs(heard.no_speech - expected.no_speech) < 0.1


def test_a_guess_saves_steps_and_changes_nothing(recogniser, gpu, two_cities):
    piece = two_cities[: 16000 * 4]
    plain = recogniser.transcribe(piece)
    before = gpu.launched
    right = recogniser.transcribe(piece, guess=plain.tokens)
    assert gpu.launched - before == 2  # the encoder, and the decoder once
    wrong = recogniser.transcribe(piece, guess=[*plain.tokens[:3], *plain.tokens[5:]])
    long = recogniser.transcribe(piece, guess=[*plain.tokens, *[50] * 100])
    for other in (right, wrong, long):
        assert other.text == plain.text and other.tokens == plain.tokens
        assert abs(other.logprob - plain.logprob) < 1e-3


def test_silence_is_nothing(recogniser):
    assert recogniser.transcribe(np.zeros(16000, np.int16)).text == ""


def test_text_that_came_before_is_read_first(recogniser, two_cities):
    heard = recogniser.transcribe(two_cities[: 16000 * 4], prompt="A tale of two cities. " * 40)
    assert "best of times" in heard.text.lower()


def test_recognition_can_be_stopped_between_tokens(recogniser, two_cities):
    cancel = Cancel()
    cancel.set()
    with pytest.raises(Cancelled):
        recogniser.transcribe(two_cities[:16000], cancel=cancel)
    assert recogniser.transcribe(two_cities[: 16000 * 4]).text


# ---- voice


@pytest.fixture(scope="module")
def voice(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hibari")
    hibari_model.export(ASSETS / "hibari.onnx", VOCABULARY, folder, for_gpu=True)
    made = voice_on(HostGpu(), folder)
    made.folder = folder
    return made


@pytest.mark.parametrize(
    "text",
    [
        "Yes.",
        "Sure, I can help with that.",
        "The meeting is scheduled for three o'clock tomorrow afternoon in the main office, and nobody will be late.",
    ],
)
def test_padding_does_not_change_what_is_heard(voice, text):
    """Against the network as it is published, whole and unpadded, in floats as well."""
    (phonemes,) = voice._phonemes(text)
    ids = [0, *(VOCABULARY[c] for c in phonemes if c in VOCABULARY), 0]
    made = voice._networks.text(ids, None)
    d = voice.description
    durations = made[d.durations].ravel().astype(int)
    owner = np.repeat(np.arange(len(ids)), durations)[:200]
    parts = voice._networks.spectra(
        {name: made[feature][:, :, owner] for name, feature in zip(d.repeated, d.features, strict=True)}, None
    )
    network = onnxruntime.InferenceSession(ASSETS / "hibari.onnx")
    expected = network.run(None, {"ids": [ids], "speed": np.ones(1, np.float32)})
    # The published one rounds to 8 bits by the loudest value of the whole sentence.
    inner = 2 * len(owner) if durations.sum() <= 200 else 2 * (len(owner) - HALO)
    assert expected[0].shape[-1] == 2 * durations.sum()
    for part, reference in zip(parts, expected, strict=True):
        assert np.corrcoef(part[..., :inner].ravel(), reference[..., :inner].ravel())[0, 1] > 0.99


def test_a_padded_network_says_what_it_says_unpadded(voice, monkeypatch):
    ids = [0, *(VOCABULARY[c] for c in "ɡˈʊd mˈɔɹnɪŋ"), 0]
    padded = voice._networks.text(ids, None)
    monkeypatch.setattr("voxpath.engines.cuda.hibari.PHONEMES", (len(ids), 64))
    exact = voice_on(HostGpu(), voice.folder)._networks.text(ids, None)
    for name, value in exact.items():
        np.testing.assert_allclose(padded[name], value, atol=1e-4)


@pytest.mark.parametrize("half", ["text", "spectra"])
def test_no_shape_is_worked_out_while_a_step_runs(voice, half, tmp_path):
    """Where any is, ONNX Runtime puts it on the CPU, and the step cannot be captured."""
    options = onnxruntime.SessionOptions()
    options.add_free_dimension_override_by_name("n", 64)
    options.optimized_model_filepath = str(tmp_path / "folded.onnx")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    onnxruntime.InferenceSession(voice.folder / f"{half}.onnx", options)
    kinds = {node.op_type for node in onnx.load(tmp_path / "folded.onnx").graph.node}
    assert not kinds & {"Shape", "Cast", "Pow", "Range"}


def test_what_is_spoken_is_understood(voice):
    recogniser = ort.recogniser(models.default_asr())
    text = "The meeting is scheduled for tomorrow afternoon in the main office."
    sound = soxr.resample(np.concatenate(list(voice.speak(text))), voice.rate, recogniser.rate)
    assert "scheduled for tomorrow afternoon in the main office" in recogniser.transcribe(sound).text
