import json

import numpy as np
import pytest
import soundfile

from voxpath import sources
from voxpath.errors import SourceError
from voxpath.sources import Clip, Label


def tone(rate, seconds=1.0, hz=1000.0, amplitude=0.5):
    return amplitude * np.sin(2 * np.pi * hz * np.arange(round(rate * seconds)) / rate)


@pytest.mark.parametrize("rate", [8000, 16_000, 22_050, 44_100, 48_000, 96_000])
@pytest.mark.parametrize("channels", [1, 2, 5])
@pytest.mark.parametrize(
    ("suffix", "subtype"), [(".wav", "PCM_16"), (".wav", "FLOAT"), (".flac", "PCM_24"), (".wav", "PCM_U8")]
)
def test_any_rate_channel_count_and_format_becomes_48_khz_mono(tmp_path, rate, channels, suffix, subtype):
    path = tmp_path / f"sound{suffix}"
    soundfile.write(path, np.repeat(tone(rate)[:, None], channels, axis=1), rate, subtype=subtype)
    clip = sources.from_file(path)
    assert clip.pcm.dtype == np.int16 and clip.pcm.ndim == 1
    assert abs(len(clip.pcm) - 48_000) <= 2
    middle = clip.pcm[12_000:36_000].astype(float)
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
    assert abs(np.argmax(spectrum) * 48_000 / len(middle) - 1000) < 3
    assert np.sqrt(2 * np.mean(middle**2)) == pytest.approx(16_384, rel=0.02)


def test_channels_are_averaged(tmp_path):
    path = tmp_path / "two.wav"
    soundfile.write(path, np.stack([tone(48_000), np.zeros(48_000)], axis=1), 48_000, subtype="FLOAT")
    assert np.abs(sources.from_file(path).pcm).max() == pytest.approx(8192, abs=2)


def test_a_float_file_beyond_full_scale_is_scaled_down_and_not_clipped(tmp_path):
    path = tmp_path / "loud.wav"
    soundfile.write(path, tone(48_000, amplitude=2.0), 48_000, subtype="FLOAT")
    pcm = sources.from_file(path).pcm.astype(float)
    assert np.abs(pcm).max() == 32_767
    # A clipped sine would have a third harmonic; a scaled one has none.
    spectrum = np.abs(np.fft.rfft(pcm * np.hanning(len(pcm))))
    assert spectrum[3000] < 1e-3 * spectrum[1000]


def faulty(tmp_path, kind):
    path = tmp_path / f"{kind}.wav"
    if kind == "folder":
        path.mkdir()
    elif kind == "empty":
        path.touch()
    elif kind == "text":
        path.write_text("This is not sound.\n" * 20)
    elif kind == "header only":
        soundfile.write(path, np.zeros(0), 16_000)
    elif kind == "silent":
        soundfile.write(path, np.zeros(16_000), 16_000)
    elif kind == "nan":
        soundfile.write(path, np.full(1000, np.nan), 16_000, subtype="FLOAT")
    elif kind == "cut":
        soundfile.write(path, tone(16_000), 16_000)
        path.write_bytes(path.read_bytes()[:20])
    return path


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("missing", "no file"),
        ("folder", "is a folder"),
        ("empty", "is empty"),
        ("text", "not a sound file"),
        ("header only", "no samples"),
        ("silent", "is silent"),
        ("nan", "not numbers"),
        ("cut", "not a sound file"),
    ],
)
def test_a_file_that_cannot_be_heard_gives_one_sentence_that_names_it(tmp_path, kind, says):
    path = faulty(tmp_path, kind)
    with pytest.raises(SourceError) as caught:
        sources.from_file(path)
    sentence = str(caught.value)
    assert says in sentence and str(path) in sentence and "\n" not in sentence and sentence.endswith(".")


def test_an_unreadable_file_gives_one_sentence(tmp_path, monkeypatch):
    path = tmp_path / "locked.wav"
    soundfile.write(path, tone(16_000), 16_000)

    def refuse(self, *_args, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", refuse)  # the tests may run as root, whom no mode stops
    with pytest.raises(SourceError, match="cannot be read: Permission denied"):
        sources.from_file(path)


def test_labels_come_back_in_order(tmp_path):
    path = tmp_path / "labels.json"
    path.write_text(json.dumps([{"start_s": 0.1, "end_s": 0.5, "text": "one"}, {"start_s": 1, "end_s": 2.5}]))
    assert sources.read_labels(path, 3.0) == (Label(0.1, 0.5, "one"), Label(1.0, 2.5, ""))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "not JSON"),
        ("{}", "must hold a list"),
        ("[]", "at least one label"),
        ("[1]", "not an object"),
        ('[{"start_s": 0}]', "needs start_s and end_s"),
        ('[{"start_s": -1, "end_s": 1}]', "needs start_s and end_s"),
        ('[{"start_s": true, "end_s": 1}]', "needs start_s and end_s"),
        ('[{"start_s": NaN, "end_s": 1}]', "needs start_s and end_s"),
        ('[{"start_s": 0, "end_s": 1' + "0" * 400 + "}]", "needs start_s and end_s"),
        ("[" * 100_000, "not JSON"),
        ('[{"start_s": 1, "end_s": 1}]', "ends"),
        ('[{"start_s": 0, "end_s": 1, "text": 5}]', "not a string"),
        ('[{"start_s": 0, "end_s": 1}, {"start_s": 0.5, "end_s": 2}]', "in order"),
        ('[{"start_s": 0, "end_s": 9}]', "after the recording"),
    ],
)
def test_a_faulty_label_file_is_refused_with_the_fault(tmp_path, content, says):
    path = tmp_path / "labels.json"
    path.write_text(content)
    with pytest.raises(SourceError, match=says):
        sources.read_labels(path, 3.0)


def test_a_missing_label_file_is_refused(tmp_path):
    with pytest.raises(SourceError, match="no label file"):
        sources.read_labels(tmp_path / "none.json")


def test_the_label_of_a_recording_is_where_10_ms_frames_are_within_30_db_of_the_loudest():
    pcm = np.zeros(48_000, np.int16)
    pcm[9_600:24_000] = 10_000  # 0.2 s to 0.5 s
    pcm[24_000:28_800] = 400  # 28 dB down, to 0.6 s: still speech
    pcm[28_800:33_600] = 250  # 32 dB down: not
    assert sources.loud_span(pcm, 48_000) == pytest.approx((0.2, 0.6))


def test_room_tone_lies_under_everything_at_minus_60_dbfs_and_is_the_same_each_time():
    clip = Clip(np.full(4800, 5000, np.int16), (Label(0.01, 0.09, "hi"),))
    first, second = sources.with_room(clip), sources.with_room(clip)
    assert np.array_equal(first.pcm, second.pcm)
    lead = first.pcm[:24_000].astype(float)
    assert 20 * np.log10(np.sqrt(np.mean(lead**2)) / 32768) == pytest.approx(-60, abs=1.0)
    assert len(first.pcm) == 24_000 + 4800 + 24_000
    assert np.abs(first.pcm[24_000:28_800].astype(int) - 5000).max() < 400
    assert first.labels == (Label(0.51, 0.59, "hi"),)


def test_a_recording_is_cut_at_its_pauses():
    rng = np.random.default_rng(5)
    speech = (rng.standard_normal(2 * 48_000) * 4000).astype(np.int16)
    pause, click = np.zeros(24_000, np.int16), speech[:2400]
    pieces = sources.phrases(np.concatenate([pause, click, pause, speech, pause, np.tile(speech, 5), pause, speech]))
    # A tenth of each pause is kept; the click is too short, the ten seconds are too long.
    assert [round(len(piece) / 48_000, 2) for piece in pieces] == [2.2, 2.1]
    assert np.array_equal(pieces[0][4800:-4800], speech)


def test_a_spoken_question_is_labelled_where_its_sound_is():
    class Voice:
        rate = 24_000

        def speak(self, text, cancel=None):
            yield np.zeros(2400, np.int16)
            yield np.full(12_000, 3000, np.int16)
            yield np.zeros(2400, np.int16)

    clip = sources.spoken("What is it?", Voice())
    (label,) = clip.labels
    assert label.text == "What is it?"
    assert (label.start_s, label.end_s) == pytest.approx((0.1, 0.6), abs=0.011)


def test_an_empty_question_is_refused():
    with pytest.raises(SourceError, match="nothing to ask"):
        sources.spoken("  ", voice=None)


@pytest.mark.parametrize(
    ("rate", "sound", "sentence"),
    [
        (1, np.full((100, 1), 0.5), "has 1 samples a second; 2000 to 768000 can be read"),
        (16000, np.full((100, 2), 3e38), "goes 770 dB over full scale"),
        (16000, np.array([[0.5, -0.5]] * 100), "channels of .* cancel each other"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_in_a_sentence(tmp_path, rate, sound, sentence):
    soundfile.write(tmp_path / "odd.wav", sound.astype(np.float32), rate, subtype="FLOAT")
    with pytest.raises(SourceError, match=sentence):
        sources.read_sound(tmp_path / "odd.wav")
