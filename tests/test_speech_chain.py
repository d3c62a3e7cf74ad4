import threading
import time

import numpy as np
import pytest

from doubles import HOP_NS, Deaf, DetectorGate, FakeBoard, FakeContext, FakeLanguage, FakeRecogniser, FakeVoice
from voxpath.errors import BoardError
from voxpath.speech import chain as chains
from voxpath.speech.chain import Chain, Watcher
from voxpath.speech.endpoint import FixedSilence

# 20 times real time in these tests: an engine that takes 1 ms here takes 20 ms of the board's time.


@pytest.fixture(autouse=True)
def no_echo(monkeypatch):
    monkeypatch.setattr(chains, "EchoGate", DetectorGate)


class Notes(Watcher):
    def __init__(self):
        self.errors, self.partials = [], []

    def failed(self, turn, sentence):
        self.errors.append(sentence)

    def partial(self, text):
        self.partials.append(text)


class Talk:
    """A chain on a scripted board, run until `turns` turns have closed and nobody speaks."""

    def __init__(self, board, recogniser=None, language=None, voice=None, silence_ms=200, speculate=True):
        self.board, self.notes, self.turns = board, Notes(), []
        self.recogniser = recogniser or FakeRecogniser("what is it")
        self.language = language or FakeLanguage("It is a small dog, I think. It barks.")
        self.voice = voice or FakeVoice()
        self.chain = Chain(
            board,
            self.recogniser,
            self.language,
            self.voice,
            endpoint=FixedSilence(silence_ms),
            speculate=speculate,
            watcher=self.notes,
            on_turn=self.turns.append,
        )

    def run(self, turns=1, until_s=0.0, patience_s=6.0):
        self.chain.start()
        deadline = time.monotonic() + patience_s
        try:
            while len(self.turns) < turns or not self.chain.idle or self.board.ns < until_s * 1e9:
                self.chain.check()
                assert time.monotonic() < deadline, f"{len(self.turns)} turns closed, state {self.chain.listener.state}"
                time.sleep(0.002)
        finally:
            self.chain.stop()
            self.board.close()
        return self.turns


def test_something_said_is_recognised_answered_and_spoken():
    talk = Talk(FakeBoard([(0.5, 1.5)]))
    (turn,) = talk.run()
    assert turn.transcript == "what is it"
    assert turn.reply == "It is a small dog, I think. It barks."
    assert talk.voice.said == ["It is a small dog,", "I think. It barks."] or talk.voice.said[0] == "It is a small dog,"
    (reply,) = talk.board.replies
    assert reply.rate == 24_000 and reply.finished and "last" in reply.times
    assert sum(map(len, reply.written)) == turn.samples == reply.heard
    assert not turn.error and not turn.barged_in and talk.notes.errors == []


def test_the_stamps_of_a_turn_are_in_the_order_in_which_things_happen():
    (turn,) = Talk(FakeBoard([(0.5, 1.5)]), speculate=False).run()
    order = ["speech_start", "speech_end", "endpoint", "audio_ready", "asr_final", "llm_first_token", "phrase"]
    order += ["tts_first_audio", "reply_ready", "handed_to_board", "reply_end"]
    stamps = [turn.times[name] for name in order]
    assert stamps == sorted(stamps)
    assert turn.times["speech_start"] == 500_000_000 and turn.times["speech_end"] == 1_500_000_000
    # Decided on the frame that completes 200 ms of silence; the host is at most a few frames behind it.
    assert 0 <= turn.times["endpoint"] - 1_700_000_000 < 10 * HOP_NS
    assert turn.times["handed_to_board"] <= turn.times["first_pcm"] + HOP_NS


def test_the_recogniser_hears_the_utterance_with_pre_roll_and_nothing_else():
    talk = Talk(FakeBoard([(0.5, 1.5)]), speculate=False)
    talk.run()
    pcm = talk.recogniser.heard[-1]
    ramp = np.arange(len(pcm)) + pcm[0]
    assert np.array_equal(pcm, ramp.astype(np.int16))
    assert pcm[0] == 64 * (125 - 75 + 1) and len(pcm) == pytest.approx(16_000 * 1.5, abs=65)


def test_a_recognition_begun_at_the_pause_is_kept_when_nobody_speaks_again():
    talk = Talk(FakeBoard([(0.5, 1.5)]))
    (turn,) = talk.run()
    assert turn.speculated
    assert turn.times["speech_end"] <= turn.times["audio_ready"] <= turn.times["asr_final"] < turn.times["endpoint"]
    # Nothing was recognised after the run that began 16 ms into the silence.
    assert len(talk.recogniser.heard[-1]) == pytest.approx(16_000 * (0.3 + 1.0 + 0.016), abs=3 * 64)


def test_a_reply_begun_at_the_pause_is_there_at_the_endpoint():
    (turn,) = Talk(FakeBoard([(0.5, 1.5)], speed=5.0), silence_ms=1000).run()
    assert turn.times["reply_ready"] < turn.times["endpoint"] <= turn.times["handed_to_board"]


def test_words_are_shown_while_they_are_spoken():
    talk = Talk(FakeBoard([(0.5, 3.5)]), recogniser=FakeRecogniser(["what", "what is", "what is it"]))
    (turn,) = talk.run()
    assert talk.notes.partials[:2] == ["what", "what is"]
    assert turn.transcript == "what is it"
    # The pre-roll and what the first run waits for, then at least 200 ms more for the next.
    first, second = (len(pcm) / 16_000 for pcm in talk.recogniser.heard[:2])
    assert 0.3 <= first < 0.5 and 0.2 <= second - first < 0.4


def test_the_language_model_reads_the_words_that_stay_while_more_are_spoken():
    recogniser = FakeRecogniser(["tell", "tell me", "tell me a", "tell me a joke"])
    language = FakeLanguage("Why not?")
    (turn,) = Talk(FakeBoard([(0.5, 2.5)]), recogniser, language).run()
    assert turn.transcript == "tell me a joke"
    # Of "tell me a joke" and the marks around it, at least "tell me" had been read before.
    answered = language.extended[-2]
    assert answered <= len("a joke\n<assistant>") + 1


def test_without_speculation_everything_starts_at_the_endpoint():
    talk = Talk(FakeBoard([(0.5, 1.5)]), speculate=False)
    (turn,) = talk.run()
    assert not turn.speculated
    assert turn.times["audio_ready"] >= turn.times["endpoint"]


def test_speech_that_resumes_drops_the_speculation_and_keeps_the_words():
    talk = Talk(FakeBoard([(0.5, 1.0), (1.12, 1.6)]), FakeRecogniser("the whole"))
    (turn,) = talk.run(until_s=2.5)
    assert turn.transcript == "the whole"
    assert turn.times["speech_start"] == 500_000_000 and turn.times["speech_end"] == 1_600_000_000
    assert [reply.finished for reply in talk.board.replies] == [True]
    assert len(talk.language.prompts) == 2  # a reply was begun in each pause, and the first called off


def test_the_first_phrase_is_spoken_while_the_rest_is_written():
    language = FakeLanguage("I think so, " + "and this is a long story about it " * 2, token_s=0.002)
    (turn,) = Talk(FakeBoard([(0.5, 1.5)], speed=5.0), language=language).run()
    written_ns = 70 * 0.002 * 5.0 * 1e9
    assert turn.times["first_pcm"] < turn.times["llm_first_token"] + written_ns
    assert turn.first_phrase_samples < turn.samples


def test_the_silence_before_a_reply_is_cut_off():
    talk = Talk(FakeBoard([(0.5, 1.5)]), voice=FakeVoice(lead_s=0.3, seconds=0.2), language=FakeLanguage("Yes."))
    (turn,) = talk.run()
    assert turn.samples == round(0.2 * 24_000)


def test_every_utterance_gets_a_turn():
    talk = Talk(
        FakeBoard([(0.5, 1.0), (4.0, 4.5), (7.5, 8.0)]), FakeRecogniser("one", "two", "three"), FakeLanguage("Yes.")
    )
    closed = talk.run(3)
    assert [turn.transcript for turn in closed] == ["one", "two", "three"]
    assert [turn.number for turn in closed] == [0, 1, 2]


def test_the_conversation_so_far_is_part_of_the_next_prompt_and_is_not_read_twice():
    language = FakeLanguage("Aye.", "Nay.")
    Talk(FakeBoard([(0.5, 1.0), (4.0, 4.5)]), FakeRecogniser("one", "two"), language).run(2)
    first, second = language.prompts
    assert first.endswith("<user>one\n<assistant>")
    assert second == first + "Aye.\n<user>two\n<assistant>"
    # What is read while someone waits for the answer: the new words, and no more.
    assert language.extended[1] == len("one\n<assistant>") and language.extended[-2] == len("two\n<assistant>")


def test_a_reply_that_is_still_playing_stops_when_the_next_utterance_lasts():
    board = FakeBoard([(0.5, 1.0), (15.0, 17.0)])
    talk = Talk(board, FakeRecogniser("one", "two"), FakeLanguage("A long story.", "Yes."), FakeVoice(seconds=30.0))
    first, second = talk.run(2, patience_s=8)
    assert first.barged_in and "stopped" in board.replies[0].times
    assert 15_000_000_000 < first.times["reply_end"] < 17_000_000_000
    assert second.transcript == "two" and not second.barged_in
    # The first hears of itself what was said of it: nothing was, or it would be in the prompt of the second.
    assert [name for name, *_ in talk.chain._gate.told if name != "wrote"][:3] == ["started", "ducked", "ended"]


def test_what_was_heard_of_a_reply_that_was_cut_is_what_the_conversation_remembers():
    board = FakeBoard([(0.5, 1.0), (6.0, 8.0)], speed=5.0)
    language = FakeLanguage("One two three, four five six, seven eight nine.", "Yes.")
    talk = Talk(board, FakeRecogniser("count", "stop"), language, FakeVoice(lead_s=0.0, seconds=4.0))
    first, second = talk.run(2)
    assert first.barged_in
    remembered = language.prompts[-1].split("<assistant>")[1].split("\n")[0]
    assert remembered and "One two three, four five six, seven eight nine.".startswith(remembered)
    # A phrase takes 4 s. The second began at about 5.3 s and was cut at about 6.4 s, a quarter into it.
    assert remembered.split()[-1] in ("four", "five")


@pytest.mark.parametrize("click_s", [0.04, 0.2])
def test_a_click_or_a_cough_during_a_reply_lowers_it_for_a_while_and_does_not_stop_it(click_s):
    board = FakeBoard([(0.5, 1.0), (8.0, 8.0 + click_s)])
    talk = Talk(board, language=FakeLanguage("A long story."), voice=FakeVoice(seconds=15.0))
    (turn,) = talk.run(1)
    assert not turn.barged_in and talk.notes.errors == []
    (reply,) = board.replies
    assert len(talk.turns) == 1 and "last" in reply.times
    (lowered_ns, db), (back_ns, full) = reply.ducks
    assert db <= -20 and full == 0
    # Two frames of speech; 200 ms after its end, and a few frames for the host to hear of it.
    assert 8_008_000_000 <= lowered_ns <= 8_060_000_000
    assert click_s + 0.199 <= (back_ns - 8_000_000_000) / 1e9 <= click_s + 0.26


def test_a_turn_whose_reply_has_not_begun_is_taken_back_when_the_speaker_goes_on():
    board = FakeBoard([(0.5, 1.0), (1.3, 2.0)])
    recogniser = FakeRecogniser(lambda pcm: "first half" if len(pcm) < 1.1 * 16_000 else "first half second half")
    language = FakeLanguage((0.2, "Too early."), "Yes.")  # 0.2 s here are 4 s of the board's time
    talk = Talk(board, recogniser, language)
    (turn,) = talk.run(1, until_s=3.0)
    assert turn.number == 0 and turn.transcript == "first half second half" and turn.reply == "Yes."
    assert turn.times["speech_start"] == 500_000_000
    assert len(board.replies) == 1
    assert "Too early" not in language.prompts[-1] and "<user>first half<" not in language.prompts[-1]


@pytest.mark.parametrize("noise", ["", " [BLANK_AUDIO] ", "(wind blowing)", "..."])
def test_sound_without_words_closes_the_turn_with_no_reply(noise):
    talk = Talk(FakeBoard([(0.5, 1.0)]), FakeRecogniser(noise))
    (turn,) = talk.run()
    assert turn.transcript == "" and talk.board.replies == [] and turn.error is None


@pytest.mark.parametrize("speculate", [True, False])
@pytest.mark.parametrize("engine", ["recogniser", "language", "voice"])
def test_an_engine_that_raises_ends_one_turn_with_an_announced_sentence(engine, speculate):
    broken = RuntimeError("out of memory")
    engines = {
        "recogniser": FakeRecogniser(broken, "hello"),
        # What fails in a draft is tried once more when the turn is committed.
        "language": FakeLanguage(*[broken] * (1 + speculate), "Yes."),
        "voice": FakeVoice(first=broken),
    }
    talk = Talk(FakeBoard([(0.5, 1.0), (3.0, 3.5)]), **{engine: engines[engine]}, speculate=speculate)
    closed = talk.run(2)
    assert closed[0].error == "out of memory"
    assert "Turn 0 ended: out of memory." in talk.notes.errors
    if engine != "voice":
        assert talk.voice.said[0] == chains.APOLOGY and closed[0].reply == chains.APOLOGY
        assert closed[1].error is None and closed[1].reply == talk.language.answers[-1]
        assert chains.APOLOGY not in talk.language.prompts[-1]


@pytest.mark.parametrize("speculate", [True, False])
def test_a_reply_that_breaks_off_before_it_was_heard_is_apologised_for(speculate):
    class Breaking(FakeLanguage):
        def open(self):
            context = FakeContext(self)
            whole = context.generate

            def generate(*arguments):
                for count, block in enumerate(whole(*arguments)):
                    if count > 20:
                        raise RuntimeError("the connection was lost")
                    yield block

            context.generate = generate
            return context

    talk = Talk(
        FakeBoard([(0.5, 1.0)]), language=Breaking("It is a small dog, I think. It barks."), speculate=speculate
    )
    (turn,) = talk.run()
    assert turn.error == "the connection was lost"
    assert any(reply.heard for reply in talk.board.replies)


@pytest.mark.parametrize(
    ("engine", "name"),
    [("recogniser", "the recogniser"), ("language", "the language model"), ("voice", "the voice")],
)
def test_an_engine_that_hangs_ends_its_turn_and_the_next_one_is_answered(engine, name, monkeypatch):
    monkeypatch.setattr(chains, "STUCK_S", 0.2)
    engines = {"recogniser": FakeRecogniser(Deaf(), "hello"), "language": FakeLanguage(Deaf(), "Yes.")}
    engines["voice"] = FakeVoice(first=Deaf())
    talk = Talk(FakeBoard([(0.5, 1.0), (9.0, 9.5)]), **{engine: engines[engine]})
    if engine == "voice":
        threading.Timer(0.3, lambda: setattr(talk.voice, "first", "")).start()
    closed = talk.run(2)
    assert closed[0].error == f"no answer from {name} within 0 s"
    assert closed[1].error is None and closed[1].reply


def test_a_board_that_stops_in_the_middle_ends_the_run_with_a_sentence():
    with pytest.raises(BoardError, match="stopped sending frames"):
        Talk(FakeBoard([(0.5, 1.0)], ends_after_s=0.8)).run()


def test_a_board_error_is_passed_on():
    with pytest.raises(BoardError, match="unplugged"):
        Talk(FakeBoard([(0.5, 1.0)], ends_after_s=0.8, raises=BoardError("unplugged"))).run()


def test_a_board_that_falls_silent_is_noticed(monkeypatch):
    monkeypatch.setattr(chains, "DEAD_S", 0.2)
    with pytest.raises(BoardError, match="has sent no frame"):
        Talk(FakeBoard([(0.5, 1.0)], hangs_after_s=0.8)).run()


def test_stopping_in_the_middle_of_a_reply_closes_the_turn():
    board = FakeBoard([(0.5, 1.0)])
    talk = Talk(board, voice=FakeVoice(seconds=30.0))
    talk.chain.start()
    deadline = time.monotonic() + 5
    while not (board.replies and board.replies[0].heard) and time.monotonic() < deadline:
        time.sleep(0.005)
    talk.chain.stop()
    board.close()
    (turn,) = talk.turns
    assert "stopped" in board.replies[0].times and turn.times["reply_end"] == board.replies[0].times["stopped"]


def test_stopping_waits_until_the_engines_have_left_their_networks():
    inside = []

    class Busy(FakeRecogniser):
        def transcribe(self, pcm, prompt=None, cancel=None):
            inside.append(True)
            time.sleep(0.3)
            inside.pop()
            return super().transcribe(pcm, prompt, cancel)

    talk = Talk(FakeBoard([(0.5, 1.0)]), Busy("so"))
    talk.chain.start()
    deadline = time.monotonic() + 5
    while not inside and time.monotonic() < deadline:
        time.sleep(0.002)
    talk.chain.stop()
    talk.board.close()
    assert not inside


def test_lost_frames_do_not_end_the_stream():
    talk = Talk(FakeBoard([(0.5, 1.5)], skip=range(200, 220)))
    (turn,) = talk.run()
    assert turn.utterance.concealed_frames == 20 and turn.reply


def test_an_under_run_is_kept_with_its_place():
    language = FakeLanguage("I think so, yes it is true.", token_s=0.02)  # 20 ms a character are 0.4 s on the board
    (turn,) = Talk(FakeBoard([(0.5, 1.5)]), language=language).run()
    assert turn.underruns and turn.underruns[0][1] == turn.first_phrase_samples


def test_a_draft_that_is_called_off_stops_its_stages_before_the_speaker_has_said_a_syllable():
    """Speech resumes while the language model writes: within 10 ms of the wall's time nothing works on it any more."""
    stopped = []

    class Watched(FakeLanguage):
        def open(self):
            context = super().open()
            generate = context.generate

            def watched(stop, limit, cancel=None):
                begun = []
                cancel_set = cancel.set

                def note():
                    begun.append(time.monotonic())
                    cancel_set()

                cancel.set = note
                try:
                    yield from generate(stop, limit, cancel)
                finally:
                    if begun:
                        stopped.append(time.monotonic() - begun[0])

            context.generate = watched
            return context

    board = FakeBoard([(0.5, 1.0), (1.15, 1.6)], speed=4.0)
    language = Watched("A story that is long enough to be still written, " * 3, token_s=0.001)
    Talk(board, language=language).run(until_s=2.2)
    assert stopped and min(stopped) < 0.05  # a loaded machine may take its time; the bench has the distribution


def test_work_for_nothing_is_counted_apart():
    talk = Talk(FakeBoard([(0.5, 1.0), (1.12, 1.6)]), FakeRecogniser("the whole"))
    talk.run(until_s=2.5)
    total, for_nothing = talk.chain.cpu_s
    assert 0 < for_nothing < total


def test_something_said_over_27_seconds_is_recognised_in_pieces_and_answered_whole():
    recogniser = FakeRecogniser(lambda pcm: "first part" if pcm[0] == recogniser.heard[0][0] else "second part")
    talk = Talk(FakeBoard([(0.5, 33.0)], speed=60.0), recogniser)
    (turn,) = talk.run(patience_s=10)
    assert turn.transcript == "first part second part"
    assert max(len(pcm) for pcm in recogniser.heard) <= 28 * 16_000
