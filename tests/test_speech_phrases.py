import random

import pytest

from voxpath.speech.phrases import PhraseCutter


def cut(text, pieces=None):
    """Feed `text` in `pieces` (characters one by one by default); return all phrases."""
    cutter = PhraseCutter()
    phrases = []
    for piece in pieces or text:
        phrases += cutter.feed(piece)
    return phrases + cutter.end()


@pytest.mark.parametrize(
    ("reply", "first"),
    [
        ("The capital of France is Paris.", "The capital of France is Paris."),
        ("Well, I think that it is four.", "Well, I think that it is four."),
        ("Of course I can, what do you need?", "Of course I can,"),
        ("Yes.", "Yes."),
        ("Yes. It is here.", "Yes. It is here."),
        ("It costs 3.50 dollars, or so.", "It costs 3.50 dollars,"),
        ("It starts at 10:30 today. Be there.", "It starts at 10:30 today."),
        ("You can ask Mr. Smith, he knows.", "You can ask Mr. Smith,"),
        ("This is a U.S. law, I think.", "This is a U.S. law,"),
        ("There are some, e.g. the blue ones.", "There are some,"),
        ("I would take the small dog for a walk in the park", "I would take the small dog for a"),
        ("First of all\nput it down", "First of all"),
    ],
)
def test_the_first_phrase_is_at_least_three_words_and_ends_at_a_mark_or_after_eight(reply, first):
    assert cut(reply)[0] == first


def test_a_later_phrase_is_cut_at_the_end_of_a_clause():
    reply = "I can do that. You need two eggs, some flour, a spoon of sugar, and a warm oven. Then you wait."
    phrases = [
        "I can do that.",
        "You need two eggs,",
        "some flour, a spoon of sugar,",
        "and a warm oven.",
        "Then you wait.",
    ]
    assert cut(reply) == phrases


def test_the_first_phrase_does_not_wait_for_what_follows_its_mark():
    cutter = PhraseCutter()
    assert cutter.feed("It is late,") == ["It is late,"]


def test_a_number_at_the_end_waits_for_what_follows():
    cutter = PhraseCutter()
    assert cutter.feed("The answer is 3.") == []
    assert cutter.feed("14") == []
    assert cutter.feed(". ") == ["The answer is 3.14."]


@pytest.mark.parametrize("seed", range(20))
def test_no_word_is_lost_or_changed_however_the_text_arrives(seed):
    rng = random.Random(seed)
    vocabulary = [
        "one",
        "two",
        "3.14",
        "Mr. Smith",
        "no,",
        "yes.",
        "why?",
        "it's",
        "10:30",
        "(so)",
        "U.S.",
        "...",
        "well;",
    ]
    text = " ".join(rng.choice(vocabulary) for _ in range(40))
    pieces = []
    at = 0
    while at < len(text):
        step = rng.randint(1, 9)
        pieces.append(text[at : at + step])
        at += step
    said = " ".join(cut(text, pieces)).split()
    assert [word for word in said if word.strip(".")] == [word for word in text.split() if word.strip(".")]


def test_a_closing_quote_stays_with_its_phrase_or_is_dropped_but_does_not_open_the_next():
    text = 'He said "it is late." Then he went out.'
    assert cut(text, [text]) == ['He said "it is late."', "Then he went out."]
    assert cut(text) == ['He said "it is late.', "Then he went out."]


def test_punctuation_alone_is_not_spoken():
    assert cut("...") == []
    assert cut("") == []
