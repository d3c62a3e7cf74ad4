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
    [
        ("One. Two. Three", 9),
        ("One. Two.", None),
        ("It is 3.5 m", None),
        ("Why?! Because. ", 14),
        ("", None),
        ("By Mr. J. R. R. Tolkien. And more. ", 34),
        ("Dr. Martin Luther King Jr. spoke. ", None),
        ("The steps are: 1. Open it. 2. Close it. ", 39),
        ("Well... let me see... it is nine. ", None),
        ("Well... It is nine. ", 19),
        ("No. It is 10. Right. ", 13),
        ("So do I. You too. ", 17),
    ],
)
def test_a_sentence_ends_where_space_follows_its_mark(text, end):
    assert sentences_end(text, 2) == end


def test_the_prompt_is_system_history_and_what_was_said():
    language = FakeLanguage("Aye.")
    thinker = Thinker(language, "Be brief.")
    answer(thinker, "one")
    answer(thinker, "two")
    assert language.prompts[1] == ("<system>Be brief.\n<user>one\n<assistant>Aye.\n<user>two\n<assistant>")


def test_a_reply_that_was_given_before_is_not_read_a_second_time_but_its_question_is():
    language = FakeLanguage("Aye.")
    thinker = Thinker(language, "")
    for number in range(3):
        answer(thinker, f"q{number}")
    assert language.prompts[2] == "<user>q0\n<assistant>Aye.\n<user>q1\n<user>q2\n<assistant>"


def test_what_is_said_unasked_follows_a_hello_since_models_expect_the_user_to_begin():
    language = FakeLanguage("Aye.")
    thinker = Thinker(language, "")
    thinker.remember("", "Hi, I am here.")
    answer(thinker, "one")
    assert language.prompts[0] == "<user>Hello.\n<assistant>Hi, I am here.\n<user>one\n<assistant>"


def test_what_is_too_long_to_be_kept_is_forgotten_and_the_next_answer_still_comes():
    language = FakeLanguage("Aye.")
    thinker = Thinker(language, "")
    thinker.remember("hi", "hello")
    thinker.remember("", "w " * 1500)
    assert len(thinker._prefix()) < think.HISTORY_TOKENS
    assert answer(thinker, "next") == "Aye."


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


class FakeServer:
    """Answers in pieces of three characters."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def chat(self, messages, limit, cancel):
        self.asked.append(messages)
        text = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        for at in range(0, len(text), 3):
            cancel.check()
            yield text[at : at + 3]


def test_a_server_is_told_the_system_prompt_and_the_conversation():
    server = FakeServer("Aye.", "Nay.")
    remote = think.thinker(server, "Be brief.")
    assert answer(remote, "one") == "Aye." and answer(remote, "two") == "Nay."
    assert [(message["role"], message["content"]) for message in server.asked[1]] == [
        ("system", "Be brief."),
        ("user", "one"),
        ("assistant", "Aye."),
        ("user", "two"),
    ]


def test_a_server_is_told_what_was_said_without_an_answer_in_one_message_with_what_follows():
    server = FakeServer("Aye.")
    asked = think.thinker(server, "")
    asked.remember("one", "")
    asked.remember("two", "")
    answer(asked, "three")
    assert [(m["role"], m["content"]) for m in server.asked[-1]] == [("user", "one\ntwo\nthree")]


def test_the_reply_of_a_server_ends_after_two_sentences():
    assert answer(think.thinker(FakeServer("One is 3.5. Two it is. Three.")), "count") == "One is 3.5. Two it is."


def test_a_conversation_of_many_tokens_is_cut_to_its_newer_half():
    language = FakeLanguage("x" * 200)
    local = Thinker(language, "")
    for number in range(8):
        local.remember(f"q{number}", "x" * 200)
    assert "".join(map(chr, local._prefix())).count("<assistant>") <= think.HISTORY_TOKENS // 200


def test_the_words_foreseen_are_not_read_again():
    language = FakeLanguage("Aye.")
    local = Thinker(language, "")
    local.prepare()
    local.foresee("what is")
    language.extended.clear()
    answer(local, "what is it")
    assert language.extended == [len(" it\n<assistant>")]


def test_the_chance_that_the_turn_is_over_is_that_of_its_end_mark():
    language = FakeLanguage("Aye.", over=0.25)
    local = Thinker(language, "")
    assert local.over("what is it", Cancel()) == 0.25
    assert "".join(map(chr, local._context.tokens)).endswith("<user>what is it")
    assert think.thinker(FakeServer("Aye.")).over("what is it", Cancel()) is None
