from dataclasses import replace

import numpy as np
import pytest

from doubles import HOP_NS, frame
from voxpath.errors import VoxpathError
from voxpath.link.frame import OFFSET, ONSET, SPEECH
from voxpath.speech.endpoint import Evidence, parse_endpoint
from voxpath.speech.listen import Listener, Signal


def listen(listener, flags, first=0, skip=()):
    """Give the listener a frame for each entry of `flags`; return {frame number: signal}."""
    signals = {}
    for number, flag in enumerate(flags, first):
        if number in skip:
            continue
        pcm = np.full(64, number % 30_000, np.int16)
        if (signal := listener.hear(frame(number, flags=flag, pcm=pcm))) is not None:
            signals[number] = signal
    return signals


def hops(ms):
    return round(ms * 1e6 / HOP_NS)


def test_the_endpoint_comes_after_exactly_the_silence_asked_for():
    listener = Listener(200)
    signals = listen(listener, [0] * 50 + [SPEECH] * 100 + [0] * 100)
    assert signals == {50: Signal.ONSET, 149 + hops(16): Signal.PAUSE, 149 + hops(200): Signal.ENDPOINT}


def test_silence_is_counted_from_speech_before_hangover_and_not_from_the_offset_flag():
    listener = Listener(200)
    after = [0] * 8 + [OFFSET] + [0] * 60
    signals = listen(listener, [SPEECH | ONSET] + [SPEECH] * 50 + after)
    assert [number for number, signal in signals.items() if signal is Signal.ENDPOINT] == [50 + hops(200)]


def test_silence_is_counted_from_offset_ns_once_the_board_has_told_it():
    listener = Listener(100)
    listen(listener, [SPEECH] * 50 + [0] * 9)
    end_ns = 50 * HOP_NS
    listener.offset_at(end_ns - 3_000_000)
    signals = listen(listener, [0] * 40, first=59)
    # The speech ended 3 ms before the frame did, so the 100 ms are over one frame sooner than 50 + 25 - 1.
    assert [number for number, signal in signals.items() if signal is Signal.ENDPOINT] == [73 + 1]
    assert listener.finished.speech_end_ns == end_ns - 3_000_000


def test_an_offset_of_another_utterance_is_ignored():
    listener = Listener(100)
    listen(listener, [SPEECH] * 50 + [0] * 9)
    listener.offset_at(10 * HOP_NS)
    assert listener.utterance.speech_end_ns == 50 * HOP_NS


def test_speech_that_resumes_before_the_endpoint_belongs_to_the_same_utterance():
    listener = Listener(200)
    signals = listen(listener, [SPEECH] * 50 + [0] * 30 + [SPEECH] * 50 + [0] * 60)
    assert list(signals.values()) == [Signal.ONSET, Signal.PAUSE, Signal.RESUMED, Signal.PAUSE, Signal.ENDPOINT]
    utterance = listener.finished
    assert utterance.speech_start_ns == 0 and utterance.speech_end_ns == 130 * HOP_NS


def test_the_recogniser_gets_300_ms_from_before_the_onset():
    listener = Listener(200)
    listen(listener, [0] * 200 + [SPEECH] * 50 + [0] * 50)
    pcm = listener.finished.pcm()
    # The pre-roll's newest frame is the one with the onset.
    assert pcm[0] == 200 - hops(300) + 1 and pcm[-1] == 249 + hops(200)
    assert len(pcm) == 64 * (249 + hops(200) - 200 + hops(300))


def test_a_click_is_noise_and_makes_no_utterance():
    listener = Listener(200)
    signals = listen(listener, [0] * 10 + [SPEECH] * 5 + [0] * 100)
    assert list(signals.values()) == [Signal.ONSET, Signal.NOISE]
    assert listener.utterance is None


def test_lost_frames_become_silence_of_the_same_length():
    listener = Listener(200)
    listen(listener, [SPEECH] * 50 + [0] * 50, skip={20, 21, 22})
    utterance = listener.finished
    assert len(utterance.pcm()) == 64 * 100
    assert not utterance.pcm()[64 * 20 : 64 * 23].any() and utterance.pcm()[64 * 23] == 23
    assert utterance.concealed_frames == 3


def test_repeated_and_late_frames_are_ignored():
    listener = Listener(200)
    listen(listener, [SPEECH] * 50)
    for number in (49, 30, 12):
        assert listener.hear(frame(number, flags=0)) is None
    assert len(listener.utterance.pcm()) == 64 * 50 and listener.silence_ms == 0


def test_the_sequence_number_may_wrap_in_an_utterance():
    listener = Listener(200)
    for index in range(100):
        number = (0xFFFFFFFF - 20 + index) & 0xFFFFFFFF
        listener.hear(frame(number, capture_ns=index * HOP_NS, flags=SPEECH if index < 50 else 0))
    utterance = listener.finished
    assert utterance.concealed_frames == 0 and len(utterance.pcm()) == 64 * 100


def test_an_utterance_too_long_for_the_recogniser_is_cut_at_its_quietest_moment_and_goes_on():
    listener = Listener(200)
    loud, quiet = np.tile(np.array([9000, -9000], np.int16), 32), np.zeros(64, np.int16)
    pieces, signals = [], []
    for number in range(7000):
        pcm = quiet if number in range(6300, 6330) else loud  # within the last 3 s before 27 s are full
        signals.append(listener.hear(frame(number, flags=SPEECH, pcm=pcm)))
        if signals[-1] is Signal.CUT:
            pieces.append(listener.cut_off)
    assert [signal for signal in signals if signal is not None] == [Signal.ONSET, Signal.CUT]
    assert 6300 * 64 < len(pieces[0]) < 6330 * 64
    assert len(pieces[0]) + listener.utterance.samples == 7000 * 64
    assert listener.utterance.speech_start_ns == 0


def test_an_utterance_that_is_taken_back_is_heard_whole_in_front_of_the_next():
    listener = Listener(200)
    listen(listener, [SPEECH] * 50 + [0] * 50)
    earlier = listener.finished
    listen(listener, [0] * 10 + [SPEECH] * 50, first=100)
    listener.take_back(earlier)
    listen(listener, [0] * 50, first=160)
    utterance = listener.finished
    assert utterance.speech_start_ns == 0 and utterance.speech_end_ns == 160 * HOP_NS
    assert np.array_equal(utterance.pcm()[::64], np.arange(210))


def test_a_click_in_a_pause_is_not_speech_that_resumes_and_does_not_lengthen_it():
    listener = Listener(200)
    signals = listen(listener, [SPEECH] * 50 + [0] * 20 + [SPEECH] * 2 + [0] * 40)
    assert signals == {0: Signal.ONSET, 49 + hops(16): Signal.PAUSE, 49 + hops(200): Signal.ENDPOINT}


def test_the_silence_that_is_needed_may_change_in_the_pause():
    listener = Listener(800)
    listen(listener, [SPEECH] * 50 + [0] * 30)
    listener.needed_ms = 160
    assert listen(listener, [0] * 20, first=80) == {49 + hops(160): Signal.ENDPOINT}


def test_speech_of_the_detector_that_is_not_the_speakers_does_not_count():
    listener = Listener(200)
    for number in range(60):
        assert listener.hear(frame(number, flags=SPEECH), speech=False) is None
    assert listener.utterance is None


def test_a_gap_in_a_gated_stream_conceals_the_time_that_is_missing_and_no_more():
    listener = Listener(200)
    for number in range(50):
        listener.hear(frame(number, flags=SPEECH))
    # Two numbers are missing, and the time between is that of one frame and a half: the other may have been short.
    listener.hear(frame(52, capture_ns=50 * HOP_NS + 6_000_000, flags=SPEECH))
    assert listener.utterance.samples == 64 * 50 + 96 + 64


@pytest.mark.parametrize("text", ["fixed:200", "fixed:50", "fixed:5000", "adaptive:150,800", "adaptive:200,200"])
def test_an_endpoint_is_understood(text):
    assert str(parse_endpoint(text)) == text


@pytest.mark.parametrize("text", ["", "200", "fixed", "fixed:", "fixed:-5", "fixed:2.5", "soon:1", "adaptive:200"])
def test_an_unknown_endpoint_is_refused_with_a_sentence(text):
    with pytest.raises(VoxpathError, match="use fixed:MS or adaptive:MIN,MAX"):
        parse_endpoint(text)


@pytest.mark.parametrize("text", ["fixed:10", "fixed:9999", "adaptive:10,200", "adaptive:200,6000"])
def test_a_silence_out_of_range_is_refused_with_a_sentence(text):
    with pytest.raises(VoxpathError, match="50 to 5000 ms"):
        parse_endpoint(text)


def test_an_adaptive_endpoint_with_its_bounds_the_wrong_way_round_is_refused():
    with pytest.raises(VoxpathError, match="longer than the longest"):
        parse_endpoint("adaptive:500,200")


def test_a_fixed_endpoint_needs_the_same_silence_whatever_was_said():
    fixed = parse_endpoint("fixed:300")
    assert {fixed.silence_ms(Evidence()), fixed.silence_ms(Evidence("I went to the", 0.01))} == {300}


def test_an_adaptive_endpoint_waits_longer_after_words_that_go_on():
    adaptive = parse_endpoint("adaptive:150,800")
    done = adaptive.silence_ms(Evidence("What is the capital of France?", 0.9))
    open_end = adaptive.silence_ms(Evidence("Tell me the name of the", 0.01))
    assert 150 <= done < 200 and 700 < open_end <= 800
    assert adaptive.silence_ms(Evidence()) == 800  # before the words are known


@pytest.mark.parametrize("over", [0.0, 1.0, None, 0.5])
@pytest.mark.parametrize("text", ["", "...", "yes", "the", "What for?"])
def test_an_adaptive_endpoint_stays_between_its_bounds_whatever_was_said(text, over):
    assert 150 <= parse_endpoint("adaptive:150,800").silence_ms(Evidence(text, over)) <= 800


def test_in_noise_the_endpoint_waits_for_what_the_detector_lost():
    adaptive, words = parse_endpoint("adaptive:180,800"), "What is the capital of France?"
    quiet, between, noisy = (adaptive.silence_ms(Evidence(words, 0.9, snr)) for snr in (40.0, 28.5, 15.0))
    assert quiet == adaptive.silence_ms(Evidence(words, 0.9))
    assert between - quiet == pytest.approx(75) and noisy - quiet == pytest.approx(150)
    assert adaptive.silence_ms(Evidence("Tell me the name of the", 0.01, 10.0)) <= 800
    assert parse_endpoint("fixed:200").silence_ms(Evidence(words, 0.9, 10.0)) == 200


def test_an_utterance_knows_how_far_its_loudest_frame_is_over_the_noise():
    listener = Listener(200)
    listen(listener, [0] * 50)
    for number, energy in enumerate((9000, 12000, 8000), 50):
        listener.hear(replace(frame(number, flags=SPEECH), energy=energy, floor=5000))
    listener.hear(replace(frame(53), energy=30000, floor=5000))  # no speech: a knock
    # 1024 are a factor of 2 in power (docs/frame.md): 7000 are 20.58 dB.
    assert listener.utterance.snr_db == pytest.approx(20.58, abs=0.01)


def test_a_board_that_does_not_tell_its_levels_is_taken_to_be_in_a_quiet_room():
    listener = Listener(200)
    listen(listener, [0] * 50 + [SPEECH] * 10)
    assert listener.utterance.snr_db is None
