"""How what a language model writes is said: by words and, where the voice does the rest, by its phonemes."""

import random
import re

import pytest
from hibari import Hibari
from hibari.g2p import G2P

from voxpath.speech.pronounce import say, spoken


@pytest.fixture(scope="module")
def phonemes():
    """A text's phonemes without stress, pauses and spaces, which depend on how the words are written."""
    g2p = G2P()
    return lambda text: re.sub(r"[ˈˌ\s,—“”\"()]", "", g2p(text))


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("It has 7 parts", "It has seven parts"),
        ("It has 1,234 parts", "It has one thousand two hundred thirty four parts"),
        ("It is 3.14 now", "It is three point one four now"),
        ("It is 8000000 now", "It is eight million now"),
        ("It is -5.5 now", "It is minus five point five now"),
        ("The 22nd one", "The twenty second one"),
        ("In 1999 it", "In nineteen ninety nine it"),
        ("In 2024 it", "In twenty twenty four it"),
        ("In 2005 it", "In two thousand five it"),
        ("In the 1980s it", "In the nineteen eighties it"),
        ("In the '80s it", "In the eighties it"),
        ("At 10:30 we", "At ten thirty we"),
        ("At 10:05 we", "At ten oh five we"),
        ("At 17:05 we", "At seventeen oh five we"),
        ("At 9:00 we", "At nine o'clock we"),
        ("At 5 p.m. we", "At five P M we"),
        ("At 5pm we", "At five P M we"),
        ("On 3/4/2024 we", "On March fourth, twenty twenty four we"),
        ("On March 3, 2024 we", "On March third, twenty twenty four we"),
        ("On Mar. 3 we", "On March third we"),
        ("On 3 March we", "On the third of March we"),
        ("It costs $3.50 now", "It costs three dollars and fifty cents now"),
        ("It costs $0.99 now", "It costs ninety nine cents now"),
        ("It costs $5 million now", "It costs five million dollars now"),
        ("It costs £5.50 now", "It costs five pounds and fifty pence now"),
        ("It is 3.5% now", "It is three point five percent now"),
        ("It is 10 km away", "It is ten kilometers away"),
        ("It is 1 km away", "It is one kilometer away"),
        ("It is 1.5kg now", "It is one point five kilograms now"),
        ("It is 20°C now", "It is twenty degrees Celsius now"),
        ("It is 60 mph now", "It is sixty miles per hour now"),
        ("It is 16 GB now", "It is sixteen gigabytes now"),
        ("It is 200 ms now", "It is two hundred milliseconds now"),
        ("It is 1/2 cup", "It is one half cup"),
        ("It is 2/3 of", "It is two thirds of"),
        ("Mr. Smith is", "Mister Smith is"),
        ("Dr. Smith is", "Doctor Smith is"),
        ("St. Paul is", "Saint Paul is"),
        ("Main St. is", "Main Street is"),
        ("France vs. Spain is", "France versus Spain is"),
        ("approx. ten", "approximately ten"),
        ("No. 5 is", "number five is"),
        ("The FPGA is", "The F P G A is"),
        ("The GPU is", "The G P U is"),
        ("The NASA is", "The nassa is"),
        ("salt & pepper", "salt and pepper"),
        ("1 + 1 = 2", "one plus one equals two"),
        ("#1 is", "number one is"),
        ("Henry VIII is", "Henry the eighth is"),
        ("World War II is", "World War two is"),
        ("Chapter IV is", "Chapter four is"),
    ],
)
def test_what_the_voice_reads_rightly_is_left_as_it_is_written(phonemes, written, words):
    assert say(written) == written
    assert phonemes(written) == phonemes(words)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        # ranges
        ("It takes 3-5 days", "It takes three to five days"),
        ("It takes 3–5 days", "It takes three to five days"),
        ("It takes 1.5-2.5 days", "It takes one point five to two point five days"),
        ("It takes 10-15% more", "It takes ten to fifteen percent more"),
        ("It takes 3-5 m", "It takes three to five meters"),
        ("It costs $10-20 now", "It costs ten to twenty dollars now"),
        ("It costs $10-$20 now", "It costs ten to twenty dollars now"),
        ("Open 10:30-11:15 today", "Open ten thirty to eleven fifteen today"),
        ("On March 3–5 we", "On March third to fifth we"),
        # numbers
        ("It is −5 now", "It is minus five now"),
        ("It is .25 now", "It is point two five now"),
        ("It is 5.0 now", "It is five point zero now"),
        ("Use 1 1/2 cups", "Use one and one half cups"),
        ("1.5M users or 50k", "one point five million users or fifty thousand"),
        ("It is 1e6 or 10⁻³ now", "It is one times ten to the six or ten to the minus three now"),
        ("3 - 5 = -2", "three minus five equals minus two"),
        ("10 - 3 is", "ten minus three is"),
        ("5 - 10 days", "five to ten days"),
        ("It has 1 000 000 parts", "It has one million parts"),
        ("5 x 3", "five times three"),
        ("10 / 2", "ten divided by two"),
        ("1920x1080 is", "nineteen twenty by ten eighty is"),
        ("It is 24/7 here", "It is twenty four seven here"),
        # strings of digits
        ("Call (555) 123-4567 now", "Call five five five one two three four five six seven now"),
        ("Call 555-123-4567 now", "Call five five five one two three four five six seven now"),
        ("Call +1 555 123 4567 now", "Call plus one five five five one two three four five six seven now"),
        ("Call 1-800-555-1234 now", "Call one eight zero zero five five five one two three four now"),
        ("Call 555-1234 now", "Call five five five one two three four now"),
        ("Call 911 now", "Call nine one one now"),
        ("Code 0042 or 5551234567", "Code zero zero four two or five five five one two three four five six seven"),
        # versions
        ("Python 3.11 is", "Python three point eleven is"),
        ("Ubuntu 22.04 is", "Ubuntu twenty two point zero four is"),
        ("v1.2 is", "version one point two is"),
        ("Use 2.0.1 now", "Use two point zero point one now"),
        ("Use 192.168.0.1 now", "Use one hundred ninety two dot one hundred sixty eight dot zero dot one now"),
        # money
        ("It costs 20 EUR now", "It costs twenty euros now"),
        ("It costs 3.50€ now", "It costs three euros and fifty cents now"),
        ("It costs 5 million USD now", "It costs five million dollars now"),
        ("It costs 500 JPY now", "It costs five hundred yen now"),
        ("It is -$5 now", "It is minus five dollars now"),
        ("It is $3.50/hour now", "It is three dollars and fifty cents per hour now"),
        # units
        ("It is 5 m/s now", "It is five meters per second now"),
        ("It is 9.8 m/s² now", "It is nine point eight meters per second squared now"),
        ("It is 1 m now", "It is one meter now"),
        ("It is 5 km² now", "It is five square kilometers now"),
        ("It is 0.5s now", "It is zero point five seconds now"),
        ("It is 5 μs now", "It is five microseconds now"),
        ("It is 10 Mbit/s now", "It is ten megabits per second now"),
        ("It is 2h 30m now", "It is two hours thirty minutes now"),
        ("He is 5'10\" now", "He is five foot ten now"),
        # abbreviations, acronyms, signs
        ("fruit, e.g. apples", "fruit, for example apples"),
        ("fruit (i.e., apples)", "fruit that is, apples"),
        ("The JSON and CO2 is", "The jason and C O two is"),
        ("C# is", "C sharp is"),
        ("It is ~5 now", "It is about five now"),
        ("a -> b", "a to b"),
        ("a != b", "a is not equal to b"),
        # addresses
        ("at https://www.example.com/a-z?x=1 now", "at example dot com slash a dash z now"),
        ("jane.doe@example.com is", "jane dot doe at example dot com is"),
        ("example.com is", "example dot com is"),
        ("open main.py now", "open main dot P Y now"),
    ],
)
def test_what_the_voice_would_misread_is_written_out(phonemes, written, words):
    assert say(written) != written
    assert phonemes(say(written)) == phonemes(words)


@pytest.mark.parametrize("answer", ["The answer is no.", "Oh no. It broke.", "We go round the Sun."])
def test_a_word_at_the_end_is_not_taken_for_an_abbreviation(phonemes, answer):
    words = answer.lower().replace(".", "")  # without the dot it is none
    assert phonemes(say(answer)).replace(".", "") == phonemes(words)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("**bold** and *it* and __so__ and ~~not~~ and `code`", "bold and it and so and not and code"),
        ("It is **bold text", "It is bold text"),
        ("# Heading\nText here", "Heading, Text here"),
        ("Take:\n- apples\n- pears\n* plums.\n• nuts", "Take: apples, pears, plums. nuts"),
        ("1. Wash them", "1. Wash them"),
        ("See [the docs](https://example.com), please", "See the docs, please"),
        ('![a cat](cat.png "of Ann")', "a cat"),
        ("> quoted", "quoted"),
        ("Run\n```python\nprint\n```", "Run, print"),
        ("a\n---\nb", "a, b"),
        ("one<br>", "one"),
        ("snake_case and 2*3", "snake_case and 2*3"),
        ("Great 😀 day 👍🏽! Yes👍🏽 1️⃣", "Great day ! Yes 1"),
        ("Wait... what? Yes; no: so, then!", "Wait... what? Yes; no: so, then!"),
        ("half — way", "half — way"),
    ],
)
def test_markup_and_pictures_are_not_said_and_marks_are_kept(written, said):
    assert say(written) == said


def test_each_written_word_has_what_is_said_for_it():
    assert spoken("- It is **20 EUR** or 5 m/s 😀 ok") == [
        ("-", ""),
        ("It", "It"),
        ("is", "is"),
        ("**20", "€20"),
        ("EUR**", ""),
        ("or", "or"),
        ("5", "5"),
        ("m/s", "meters per second"),
        ("😀", ""),
        ("ok", "ok"),
    ]
    assert spoken("(555) 123-4567.") == [
        ("(555)", "five five five,"),
        ("123-4567.", "one two three, four five six seven."),
    ]
    assert spoken(" \n") == []


def test_a_phrase_cut_out_of_a_pattern_is_said_as_far_as_it_goes():
    assert say("costs $5") == "costs $5"
    assert say("million USD, or") == "million dollars, or"
    assert say("text** is") == "text is"
    assert say("docs](https://example.com)") == "docs](example dot com)"


PIECES = [
    *"0123456789.,-–/:%$€£°()[]*_`#@&+=<>~^'\"|\\ \t\n!?;xkKmMsVhe−×½²⁶⁻¹μΩ…“①१中ßﬁⅧİ\u2028\u00a0\x1c\x85\u200d",
    *["no.", "e.g.", "http://", "www.", "March ", "p.m.", " EUR", " km", "m/s", "v", "Python ", "Call ", "😀", ",000"],
]


@pytest.mark.parametrize("seed", range(10))
def test_no_text_raises_or_loses_a_word_here_or_in_the_voice(seed):
    rng = random.Random(seed)
    g2p = G2P(oov=False)
    for _ in range(100):
        text = "".join(rng.choice(PIECES) for _ in range(rng.randrange(40)))
        most = rng.choice([0x250, 0x3000, 0x110000])
        characters = [chr(code) for code in (rng.randrange(most) for _ in range(20)) if not 0xD800 <= code < 0xE000]
        for given in (text, "".join(characters)):
            pairs = spoken(given)
            assert [word for word, _ in pairs] == given.split()
            assert all(said == " ".join(said.split()) for _, said in pairs)
            for sentence in Hibari.split_sentences(say(given)):
                g2p(sentence)


@pytest.mark.parametrize("text", ["⁶(2", "①h", "9" * 5000, "9,999" + ",999" * 2000, "0." + "1" * 5000, "1.1" * 2000])
def test_a_number_that_is_odd_or_without_end_raises_neither_here_nor_in_the_voice(text):
    G2P(oov=False)(say(text))
