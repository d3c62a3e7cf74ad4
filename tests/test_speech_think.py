import pytest

from doubles import FakeLanguage
from voxpath.engines.cancel import Cancel
from voxpath.speech import think
from voxpath.speech.think import Thinker, sentences_end


def answer(thinker, text):
    reply = "".join(thinker.answer(text, Cancel()))
    thinker.remember(text, reply)
    return reply


def test_a_reply_ends_after_two_sentences():
    thinker = Thinker(FakeLanguage("It is 3.5 m. That is a lot! And more. And more."), "")
    assert answer(thinker, "how long") == "It is 3.5 m. That is a lot!"


@pytest.mark.parametrize(
    ("text", "end"),
    [("One. Two. Three", 9), ("One. Two.", None), ("It is 3.5 m", None), ("Why?! Because. ", 14), ("", None)],
)
def test_a_sentence_ends_where_space_follows_its_mark(text, end):
    assert sentences_end(text, 2) == end


def test_the_prompt_is_system_history_and_what_was_said():
    language = FakeLanguage("Aye.")
    thinker = Thinker(language, "Be brief.")
    answer(thinker, "one")
    answer(thinker, "two")
    assert language.prompts[1] == ("<system>Be brief.\n<user>one\n<assistant>Aye.\n<user>two\n<assistant>")


def test_what_is_prepared_is_not_read_again_for_the_answer():
    language = FakeLanguage("Aye.")
    thinker = Thinker(language, "A long system prompt.")
    thinker.prepare()
    answer(thinker, "one")
    assert language.extended == [len("<system>A long system prompt.\n<user>"), len("one\n<assistant>")]


def test_a_long_conversation_is_cut_to_its_newest_half_and_not_at_every_turn():
    language = FakeLanguage("Aye.")
    thinker = Thinker(language, "")
    for number in range(think.HISTORY_TURNS + 1):
        answer(thinker, f"q{number}")
    thinker.prepare()
    half = think.HISTORY_TURNS // 2
    answer(thinker, "next")
    prompt = language.prompts[-1]
    assert f"q{think.HISTORY_TURNS}\n" in prompt and f"q{half}\n" not in prompt and f"q{half + 1}\n" in prompt
    language.extended.clear()
    thinker.prepare()
    assert sum(language.extended) < 20  # only the newest exchange's end


def test_a_fresh_context_after_a_hang_holds_the_conversation():
    language = FakeLanguage("Aye.")
    thinker = Thinker(language, "")
    answer(thinker, "one")
    thinker.renew()
    answer(thinker, "two")
    assert language.prompts[-1] == "<user>one\n<assistant>Aye.\n<user>two\n<assistant>"
