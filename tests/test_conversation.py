import time

import pytest

from doubles import DetectorGate, FakeBoard, FakeLanguage, FakeRecogniser, FakeVoice
from voxpath import Conversation
from voxpath.errors import VoxpathError
from voxpath.speech import chain


@pytest.fixture(autouse=True)
def no_echo(monkeypatch):
    monkeypatch.setattr(chain, "EchoGate", DetectorGate)


class Talk:
    """A conversation on a scripted board that notes what it is told."""

    def __init__(self, board, recogniser=None, language=None, voice=None, **options):
        self.board, self.told = board, []
        self.voice = voice or FakeVoice()
        notes = {
            name: lambda value, name=name: self.told.append((name, value))
            for name in ("on_partial", "on_final", "on_reply", "on_interrupt", "on_turn", "on_error")
        }
        recogniser = recogniser or FakeRecogniser("what is it")
        language = language or FakeLanguage("It is a dog.")
        options = {"endpoint": "fixed:200"} | notes | options
        self.conversation = Conversation(board, recogniser, language, self.voice, **options)

    def until(self, condition, patience_s=8.0):
        deadline = time.monotonic() + patience_s
        while not condition():
            self.conversation.check()
            assert time.monotonic() < deadline, self.told
            time.sleep(0.002)

    def __enter__(self):
        self.conversation.start()
        return self

    def __exit__(self, *_):
        self.conversation.stop()
        self.board.close()

    def told_of(self, name):
        return [value for told, value in self.told if told == name]


def test_the_program_is_told_of_words_reply_and_turn_in_that_order():
    with Talk(FakeBoard([(0.5, 1.5)])) as talk:
        talk.until(lambda: talk.told_of("on_turn"))
    names = [name for name, _ in talk.told]
    assert names[0] == "on_partial" and names.index("on_final") < names.index("on_turn")
    assert talk.told_of("on_final") == ["what is it"]
    (turn,) = talk.told_of("on_turn")
    assert turn.reply == "It is a dog." and turn.heard == "It is a dog."
    assert talk.told_of("on_interrupt") == talk.told_of("on_error") == []


def test_a_greeting_is_said_and_remembered_and_is_no_turn():
    language = FakeLanguage("It is a dog.")
    with Talk(FakeBoard([(6.0, 7.0)]), language=language) as talk:
        assert talk.conversation.say("Hello there.")
        assert not talk.conversation.say("And again.")  # one thing at a time
        talk.until(lambda: talk.told_of("on_turn"))
    assert talk.voice.said[0] == "Hello there."
    assert len(talk.told_of("on_turn")) == 1
    assert "<assistant>Hello there." in language.prompts[-1]


def test_a_text_without_words_is_refused():
    with Talk(FakeBoard()) as talk, pytest.raises(VoxpathError, match="no words"):
        talk.conversation.say("...")


def test_nothing_is_heard_while_muted():
    with Talk(FakeBoard([(0.5, 1.5), (4.0, 5.0)])) as talk:
        talk.conversation.mute()
        talk.until(lambda: talk.board.ns > 2.5e9)
        assert talk.told == []
        talk.conversation.unmute()
        talk.until(lambda: talk.told_of("on_turn"))
    (turn,) = talk.told_of("on_turn")
    assert turn.times["speech_start"] >= 3.9e9


def test_with_push_to_talk_the_release_ends_the_turn_without_waiting_for_silence():
    with Talk(FakeBoard([(0.5, 8.0)], speed=5.0), push_to_talk=True, endpoint="fixed:5000") as talk:
        talk.until(lambda: talk.board.ns > 1.0e9)
        assert talk.told == []
        talk.conversation.press()
        talk.until(lambda: talk.board.ns > 2.5e9)
        talk.conversation.release()
        talk.until(lambda: talk.told_of("on_turn"))
    (turn,) = talk.told_of("on_turn")
    assert 0.9e9 < turn.times["speech_start"] < 1.3e9
    assert 2.4e9 < turn.times["endpoint"] < 3.5e9


def test_while_the_button_is_held_a_pause_does_not_end_what_is_said():
    with Talk(FakeBoard([(0.5, 1.5), (4.0, 5.0)]), push_to_talk=True, endpoint="fixed:200") as talk:
        talk.conversation.press()
        talk.until(lambda: talk.board.ns > 6.0e9)
        assert talk.told_of("on_final") == [] and talk.board.replies == []
        talk.conversation.release()
        talk.until(lambda: talk.told_of("on_turn"))
    (turn,) = talk.told_of("on_turn")
    assert turn.times["speech_start"] < 1.0e9 and turn.times["endpoint"] > 5.9e9


def test_pressing_the_button_ends_a_reply():
    talk = Talk(FakeBoard([(0.5, 1.5)]), voice=FakeVoice(seconds=60.0))
    with talk:
        talk.until(lambda: talk.board.replies and talk.board.replies[0].heard)
        talk.conversation.press()
        talk.until(lambda: talk.told_of("on_turn"))
    assert len(talk.told_of("on_interrupt")) == 1 and "stopped" in talk.board.replies[0].times


def test_the_idle_prompt_is_said_once_until_somebody_speaks():
    with Talk(FakeBoard(), idle_prompt=(0.1, "Are you there?")) as talk:
        talk.until(lambda: talk.board.ns > 20e9, patience_s=10)
    assert talk.voice.said == ["Are you there?"]


@pytest.mark.parametrize("name", ["on_partial", "on_final", "on_turn"])
def test_a_callback_that_raises_is_logged_and_the_conversation_goes_on(name, caplog):
    def broken(_):
        raise RuntimeError("a fault of the program's")

    with Talk(FakeBoard([(0.5, 1.5), (6.0, 7.0)])) as talk:
        if name == "on_turn":
            whole, talk.conversation._on_turn = talk.conversation._on_turn, lambda turn: (whole(turn), broken(turn))
        else:
            setattr(talk.conversation._chain._watcher, f"_{name}", broken)
        talk.until(lambda: len(talk.told_of("on_turn")) == 2)
    assert [turn.error for turn in talk.told_of("on_turn")] == [None, None]
    assert "a fault of the program's" in caplog.text


def test_a_callback_may_call_the_conversation():
    with Talk(FakeBoard([(0.5, 1.5), (4.0, 5.0)])) as talk:
        talk.conversation._chain._watcher._on_final = lambda _: talk.conversation.mute()
        talk.until(lambda: talk.told_of("on_turn"))
        talk.until(lambda: talk.board.ns > 6e9)
    assert len(talk.told_of("on_turn")) == 1


def test_a_conversation_is_started_once_and_says_nothing_before_or_after():
    talk = Talk(FakeBoard())
    assert not talk.conversation.say("Hello.")
    with talk, pytest.raises(VoxpathError, match="started once"):
        talk.conversation.start()
    talk.conversation.stop()
    assert not talk.conversation.say("Hello.")
    with pytest.raises(VoxpathError, match="started once"):
        talk.conversation.start()


def test_the_program_hears_of_errors_in_a_sentence():
    with Talk(FakeBoard([(0.5, 1.5)]), language=FakeLanguage(RuntimeError("out of memory"))) as talk:
        talk.until(lambda: talk.told_of("on_turn"))
    assert talk.told_of("on_error") == ["Turn 0 ended: out of memory."]
    assert talk.voice.said == [chain.APOLOGY]
