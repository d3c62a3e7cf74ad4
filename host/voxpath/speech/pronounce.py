"""How written English is said: what a voice would misread is rewritten, and what nobody says is left out.

The voice reads plain numbers, times, dates, money, most units, abbreviations and acronyms rightly by itself (the tests
hold it to that), so these stay as they are written. Here is only the rest: markdown, addresses, phone numbers,
versions, ranges, the units and signs that it does not know, and the words that it takes for something else.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

# While the rules run, a tab or newline (as in the text) stands between two written words, a space between two words
# that one of them has become. No rule may change how many tabs and newlines there are.
_SPACE = re.compile(r"\s+")
_GAPS = re.compile("[\t\n]")
MARKS = ",.!?;:\u2014\u2026"  # they shape the voice's melody and pauses
_SIGNS = re.compile(r"[%&+@=<>×÷±→/-]|--")  # that say something, or make a pause, when they stand alone
# Emoji and other pictures, arrows that are only ornament, and marks of no width.
_PICTURES = re.compile(
    "[\u200b-\u200f\u202a-\u202e\u2060-\u206f\u20d0-\u20ff\u2300-\u23ff\u25a0-\u27bf\u2b00-\u2bff\ufe00-\ufe0f\ufeff"
    "\U0001f000-\U0001faff\U000e0000-\U000e007f]+"
)
_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"
# The voice fails at raised digits that are no power, but for ² and ³, and at the capital İ.
_STUMBLES = str.maketrans("İ⁰¹⁴⁵⁶⁷⁸⁹", "I01456789")
_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
# Days of a month; the voice does not know its own "5th" everywhere.
_ORDINALS = (
    *("zeroth", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"),
    *("eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth"),
    *("nineteenth", "twentieth", "twenty-first", "twenty-second", "twenty-third", "twenty-fourth", "twenty-fifth"),
    *("twenty-sixth", "twenty-seventh", "twenty-eighth", "twenty-ninth", "thirtieth", "thirty-first"),
)
_NUMBER = r"[0-9]{1,15}(?:,[0-9]{3}){0,10}(?:\.[0-9]{1,20})?"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Sept|Oct|Nov|Dec)[a-z]*\.?"

# What the voice does not know after a number, as one and as many of it.
UNITS = {
    "m": ("meter", "meters"),
    "m/s": ("meter per second", "meters per second"),
    "m/s²": ("meter per second squared", "meters per second squared"),
    "mm²": ("square millimeter", "square millimeters"),
    "cm²": ("square centimeter", "square centimeters"),
    "m²": ("square meter", "square meters"),
    "km²": ("square kilometer", "square kilometers"),
    "cm³": ("cubic centimeter", "cubic centimeters"),
    "m³": ("cubic meter", "cubic meters"),
    "in.": ("inch", "inches"),
    "g": ("gram", "grams"),
    "l": ("liter", "liters"),
    "L": ("liter", "liters"),
    "tbsp": ("tablespoon", "tablespoons"),
    "tsp": ("teaspoon", "teaspoons"),
    "ns": ("nanosecond", "nanoseconds"),
    "µs": ("microsecond", "microseconds"),
    "s": ("second", "seconds"),
    "h": ("hour", "hours"),
    "V": ("volt", "volts"),
    "mV": ("millivolt", "millivolts"),
    "kV": ("kilovolt", "kilovolts"),
    "mA": ("milliamp", "milliamps"),
    "W": ("watt", "watts"),
    "mW": ("milliwatt", "milliwatts"),
    "Ω": ("ohm", "ohms"),
    "kΩ": ("kilohm", "kilohms"),
    "dB": ("decibel", "decibels"),
    "kPa": ("kilopascal", "kilopascals"),
    "hPa": ("hectopascal", "hectopascals"),
    "kcal": ("kilocalorie", "kilocalories"),
    "kJ": ("kilojoule", "kilojoules"),
    "px": ("pixel", "pixels"),
    "bpm": ("beat per minute", "beats per minute"),
    "rpm": ("turn per minute", "turns per minute"),
    "kbit/s": ("kilobit per second", "kilobits per second"),
    "Mbit/s": ("megabit per second", "megabits per second"),
    "Gbit/s": ("gigabit per second", "gigabits per second"),
    "MB/s": ("megabyte per second", "megabytes per second"),
    "GB/s": ("gigabyte per second", "gigabytes per second"),
}
_VOICE_UNITS = (
    "km|cm|mm|kg|mg|lbs?|oz|ft|mi|ml|mph|kph|[kMG]?Hz|[kKMGT]B|[MG]bps|hrs?|mins?|secs?|ms|[kMG]W|kWh|nm|µm|fps|yd|sq"
)
_PER = {
    "hour": "hour",
    "hr": "hour",
    "h": "hour",
    "day": "day",
    "week": "week",
    "month": "month",
    "mo": "month",
    "year": "year",
    "yr": "year",
    "night": "night",
    "person": "person",
    "minute": "minute",
    "min": "minute",
    "second": "second",
    "kg": "kilogram",
    "lb": "pound",
    "km": "kilometer",
    "mile": "mile",
}
_SIGN_OF = {"EUR": "€", "USD": "$", "GBP": "£"}
_MONEY = {
    "EUR": "euros",
    "USD": "dollars",
    "GBP": "pounds",
    "JPY": "yen",
    "CNY": "yuan",
    "CHF": "francs",
    "CAD": "Canadian dollars",
    "AUD": "Australian dollars",
    "INR": "rupees",
}
# Acronyms that the voice spells though people read them, or the other way round.
ACRONYMS = {
    "JSON": "jason",
    "YAML": "yammel",
    "CUDA": "cooda",
    "IEEE": "I triple E",
    "BRAM": "B ram",
    "LUT": "lut",
    "LUTs": "luts",
    "SoC": "S O C",
    "README": "read me",
    "CO2": "C O 2",
    "CO₂": "C O 2",
    "IPv4": "I P V 4",
    "IPv6": "I P V 6",
    "WWI": "World War 1",
    "WWII": "World War 2",
}
_VERSIONED = (
    r"version|release|firmware|kernel|Python|Ubuntu|Debian|Fedora|Linux|Java|Node(?:\.js)?|Django|Rust|Go|PHP|Ruby|Perl|"
    r"Firefox|Android|iOS|macOS|Windows|CUDA|Vivado|Vitis|OpenGL|Vulkan|USB|HDMI|Bluetooth|PCIe|HTTP|TLS|GCC|CMake"
)
_HOSTS = r"com|org|net|edu|gov|io|dev|ai|app|info|uk|de|eu|ca|us|tv"
_FILES = r"py|js|ts|md|txt|json|html|css|sh|sv|cpp|rs|yaml|yml|toml|csv|pdf|png|jpg|wav|zip|exe|ini|cfg|log"
_ADDRESS_SIGNS = {
    ".": " dot ",
    "/": " slash ",
    "-": " dash ",
    "_": " underscore ",
    "@": " at ",
    ":": " colon ",
    "~": " tilde ",
    "+": " plus ",
    "=": " equals ",
    "%": " percent ",
    "&": " and ",
}


def _digits(text: str) -> str:
    """Each digit of a string of digits as a word."""
    return " ".join(_DIGITS[int(digit)] for digit in text)


def _part(digits: str) -> str:
    """A part of a version: 11 is eleven, but 04 is zero four."""
    return _digits(digits) if digits[0] == "0" else digits


def _phone(match: re.Match) -> str:
    """Digit by digit, a short pause between groups."""
    said = match[0].replace("+", "plus ").replace("(", "").replace(")", "-")
    said = re.sub(r"[.-]*([\t\n])[.-]*", r",\1", said)
    said = re.sub(r"[.-]+(?=[0-9])", ", ", said).rstrip("-")
    return re.sub("[0-9]+", lambda digits: _digits(digits[0]), said)


def _long(match: re.Match) -> str:
    """A long string of digits is a number only if it is a round one."""
    return match[0] if match[0].endswith("00") and len(match[0]) <= 15 else _digits(match[0])


def _version(match: re.Match) -> str:
    parts = match["parts"].split(".")
    before = match[0][: match.start("parts") - match.start()]
    return before + (" dot " if len(parts) == 4 else " point ").join(_part(part) for part in parts)


def _address(match: re.Match) -> str:
    """A web or mail address without its scheme and query; the marks that end a sentence are not part of it."""
    address = match[0].rstrip(".,!?;:")
    after = match[0][len(address) :]
    address = re.sub(r"(?i)^(?:[a-z]+://|mailto:)?(?:www\.)?", "", address)
    address = re.split(r"[?#]", address, maxsplit=1)[0].rstrip("/")
    said = "".join(_ADDRESS_SIGNS.get(char, char) for char in address)
    return " ".join(said.split()) + after


def _file(match: re.Match) -> str:
    return f"{match[1]} dot {ACRONYMS.get(match[2].upper(), match[2].upper())}"


def _unit(match: re.Match) -> str:
    if match["unit"] == "s" and not match["gap"] and match["number"].endswith("0"):
        return match[0]  # the 1980s
    one, many = UNITS[match["unit"]]
    return match["number"] + (match["gap"] or " ") + (one if match["number"] == "1" else many)


def _difference(match: re.Match) -> str:
    """5 - 3 may be a range or a subtraction: it is the latter if a result follows, or it would be a range backwards."""
    left, right = (float(match[group].replace(",", "")[:15]) for group in ("left", "right"))
    minus = left > right or match.string[match.end() :].lstrip().startswith("=")
    return f"{match['left']}{match['gap']}{'minus' if minus else 'to'}{match['after']}{match['right']}"


def _days(match: re.Match) -> str:
    day = int(match[2])
    return f"{match[1]} to {_ORDINALS[day] if day < len(_ORDINALS) else day}"


def _power(match: re.Match) -> str:
    exponent = (match[2] or match[3]).translate(str.maketrans(_RAISED, "0123456789"))
    return f" to the {'minus ' if match[1] else ''}{exponent}"


# The order matters: a rule reads what those before it left.
_Rules = list[tuple[re.Pattern, str | Callable[[re.Match], str]]]
_MARKDOWN: _Rules = [
    (re.compile(r"(?<!\S)(?:```|~~~)[\w+-]*(?!\S)"), ""),  # a fence
    (re.compile(r"(?<!\S)[|:*_=+-]{3,}(?!\S)"), ""),  # a rule, across the page or in a table
    (re.compile(r"(?m)^(?:>[\t\n])*(?:[-*+>•‣◦▪●–]|#{1,6})(?=\s|$)"), ""),  # a bullet, heading, quotation
    (re.compile(r"(?m)^[•‣◦▪●]"), ""),
    (re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)"), r"\1"),  # a link or picture
    (re.compile(r"<((?:https?://|mailto:)[^<>\s]+)>"), r"\1"),
    (re.compile(r"</?[A-Za-z][^<>\s]{0,20}>"), ""),  # a tag
    (re.compile(r"(?<![0-9A-Za-z])(?:\*{1,3}|_{1,3}|~~)(?=[^\s*_])"), ""),  # emphasis begins
    (re.compile(r"(?<=[^\s*_])(?:\*{1,3}|_{1,3}|~~)(?![0-9A-Za-z*_])"), ""),  # ... and ends
    (re.compile("`+"), ""),
    # A line that ends without a mark, as of a list, ends with a pause.
    (re.compile(r"(?<=[^\W_])([)\"”]?)(?=\n[^a-z])"), r"\1,"),
]
_ADDRESSES: _Rules = [
    (re.compile(r"(?i)(?<![\w/])(?:(?:https?|ftp)://|mailto:|www\.)[^\s<>\"'()\[\]]+"), _address),
    (re.compile(r"(?<![\w.+%-])[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+"), _address),
    (
        re.compile(rf"(?i)(?<![\w.@/-])(?:[a-z0-9-]{{1,63}}\.)+(?:{_HOSTS})\b(?![\w-]|\.\w)(?:/[^\s<>\"'()]*)?"),
        _address,
    ),
    (re.compile(rf"(?<![\w./-])([\w-]{{1,64}})\.({_FILES})\b(?![\w-]|\.\w)"), _file),
]
_NUMBERS: _Rules = [
    # More digits than anyone would hear out, nor can the voice count so far.
    (re.compile(r"[0-9][0-9,]{33,}"), lambda match: _digits(match[0].replace(",", ""))),
    (re.compile(r"(?<![\w.,+-])[0-9]{1,3}(?:\t000)+(?![\w-]|[.,][0-9])"), lambda match: match[0].replace("\t", "")),
    # Phone numbers: international, with an area code, local.
    (re.compile(r"(?<![\w.,+-])\+[0-9]{1,3}(?:[\s.-]?\(?[0-9]{2,4}\)?){2,5}(?![\w-])"), _phone),
    (re.compile(r"(?<![\w.,+-])(?:1[\s.-])?\(?[0-9]{3}\)?[\s.-]?[0-9]{3}[.\s-][0-9]{4}(?![\w-]|[.,][0-9])"), _phone),
    (re.compile(r"(?<![\w.,+-])0[0-9]{2,4}(?:[\s-][0-9]{3,4}){1,3}(?![\w-]|[.,:][0-9])"), _phone),
    (re.compile(r"(?<![\w.,+-])[0-9]{3}-[0-9]{4}(?![\w-]|[.,][0-9])"), _phone),
    (re.compile(r"(?<=[Cc]all\s)(?:911|112|999|988|311)(?![\w-]|[.,][0-9])"), _phone),
    (re.compile(r"(?<=[Dd]ial\s)[0-9]{3,}(?![\w-]|[.,][0-9])"), _phone),
    (re.compile(r"(?<![\w.,])[0-9]{7,}(?![\w]|[.,][0-9])"), _long),
    (re.compile(r"(?<![\w.,:/+-])0[0-9]+(?![\w:/-]|[.,][0-9])"), _long),
    # Versions and addresses of machines.
    (re.compile(r"(?<![\w.,$£€-])(?P<parts>[0-9]{1,4}(?:\.[0-9]{1,4}){2,5})(?![\w%]|\.[0-9])"), _version),
    (re.compile(rf"\b(?:{_VERSIONED})[\s/](?P<parts>[0-9]{{1,4}}\.[0-9]{{1,4}})(?![\w%]|\.[0-9])", re.I), _version),
    (re.compile(r"(?<!\S)v(?=[0-9])"), "version "),
    (re.compile(r"(?<=version )(?P<parts>[0-9]{1,4}(?:\.[0-9]{1,4})+)(?![\w%]|\.[0-9])"), _version),
    # Money.
    (re.compile(r"(?<!\w)[-−](?=[$£€¥])"), "minus "),
    (re.compile(r"\bUS\$(?=[0-9])"), "$"),
    (re.compile(rf"(?<![\w.,$£€])({_NUMBER})([\t\n]?)([$£€¥])(?!\w)"), r"\3\1\2"),
    (
        re.compile(rf"(?<![\w.,$£€-])({_NUMBER})([\t\n]?)(EUR|USD|GBP)\b"),
        lambda match: _SIGN_OF[match[3]] + match[1] + match[2],
    ),
    (re.compile(rf"([$£€])({_NUMBER})[-–—]\1?(?={_NUMBER})"), r"\2 to \1"),
    (re.compile(rf"(?<=[0-9%])/({'|'.join(_PER)})\b(?!/)"), lambda match: " per " + _PER[match[1]]),
    # Ranges, of days, times, ordinals, numbers.
    (re.compile(rf"\b({_MONTH}\s[0-9]{{1,2}})(?:st|nd|rd|th)?[-–—]([0-9]{{1,2}})(?:st|nd|rd|th)?(?![\w:/-])"), _days),
    (re.compile(r"(:[0-9]{2}|[ap]\.?m\.?)[-–—](?=[0-9]{1,2}(?::[0-9]{2}|\s?[ap]\.?m))"), r"\1 to "),
    (re.compile(r"(?<=[0-9](?:st|nd|rd|th))[-–—](?=[0-9])"), " to "),
    (
        re.compile(rf"(?<![\w.,:/$£€-])({_NUMBER})(%|°[CF]?)?[-–—](?={_NUMBER}(?![0-9]|[-–—/:][0-9]))"),
        r"\1\2 to ",
    ),
    (
        re.compile(rf"(?<![\w.,])(?P<left>{_NUMBER})(?P<gap>[\t\n])[-−](?P<after>[\t\n])(?P<right>{_NUMBER})(?!\w)"),
        _difference,
    ),
    # Lengths of time, heights, units.
    (re.compile(r"(?<![\w.])([0-9]+)h([\t\n]?)([0-9]+)m(?:in)?\b"), r"\1 hours \2\3 minutes"),
    (re.compile(r"(?<![\w.])([0-9])['’′]([0-9]{1,2})(?:[\"”″]|'')"), r"\1 foot \2"),
    (re.compile("μ"), "µ"),
    (
        re.compile(
            rf"(?<![\w.:$£€'’])(?P<number>{_NUMBER})(?P<gap>[\t\n ]?)"
            rf"(?P<unit>{'|'.join(re.escape(unit) for unit in sorted(UNITS, key=len, reverse=True))})(?![\w/²³^'’&])"
        ),
        _unit,
    ),
    # A zero behind the point, which the voice leaves out; before a unit of its own that does no harm.
    (
        re.compile(rf"(?<![\w.,$£€])([0-9]{{1,6}})\.0(?![\w%°.]|\s?(?:{_VOICE_UNITS}|[a-z]+illion)\b)"),
        r"\1 point zero",
    ),
    # Sums.
    (re.compile(r"(?<![\w.])([0-9]+(?:\.[0-9]+)?)[eE]\+?([0-9]{1,3})\b"), r"\1 times 10 to the \2"),
    (re.compile(r"(?<![\w.])([0-9]+(?:\.[0-9]+)?)[eE][-−]([0-9]{1,3})\b"), r"\1 times 10 to the minus \2"),
    (re.compile("(?<=[0-9A-Za-z)])(?:(⁻)([⁰¹²³⁴-⁹]+)|([⁰¹²³⁴-⁹]{2,}|[⁰¹⁴-⁹]))"), _power),
    (re.compile(r"(?<=[1-9])[x×](?=[0-9])|(?<=[0-9]0)[x×](?=[0-9])"), " by "),
    (re.compile(r"(?<=[0-9])[x×](?!\w)"), " times"),
    (re.compile(r"(?<=[0-9)])(\s)[x×*](?=\s[0-9(])"), r"\1times"),
    (re.compile(r"(?<=[0-9)])(\s)/(?=\s[0-9(])"), r"\1divided by"),
    (re.compile(r"(?<=[0-9])(\s)(?=[0-9]/[0-9]{1,2}(?![\w/]))"), r"\1and "),
    (re.compile(r"(?<=[0-9])(?=[½¼¾⅓⅔])"), " and "),
    (re.compile(r"(?<![\w./])(24/7|50/50)(?![\w/])"), lambda match: match[1].replace("/", " ")),
    (re.compile(r"(?<=[0-9])k(?!\w)"), " thousand"),
    (re.compile(r"(?<=[0-9])M(?!\w)"), " million"),
    (re.compile(r"(?<![\w)])−(?=[0-9.])"), "minus "),
    (re.compile(r"−"), "-"),
    (re.compile(r"(?<![\w.,)])\.([0-9]{1,20})(?!\w)"), lambda match: "point " + _digits(match[1])),
]
_SYMBOLS: _Rules = [
    (re.compile(r"\b([A-G])[#♯](?!\w)"), r"\1 sharp"),
    (re.compile(r"[!≠]==?|≠"), " is not equal to "),
    (re.compile(r"<=|≤"), " at most "),
    (re.compile(r">=|≥"), " at least "),
    (re.compile(r"={2,}"), " equals "),
    (re.compile(r"(?:-+|=+)>|⇒"), " to "),
    (re.compile(r"(?<!\w)[~≈](?=[$£€]?[0-9])"), "about "),
    (re.compile(r"≈"), " is about "),
    (re.compile(rf"((?<=[0-9])|(?<=illion))(\s)({'|'.join(_MONEY)})\b"), lambda match: match[2] + _MONEY[match[3]]),
    (re.compile(r"√"), " root "),
    (re.compile(r"∞"), " infinity "),
]
_WORDS: _Rules = [
    (re.compile(r"(?<![\w.])e\.g\.?(?!\w)"), "for example"),
    (re.compile(r"(?<![\w.])E\.g\.?(?!\w)"), "For example"),
    (re.compile(r"(?<![\w.])i\.e\.?(?!\w)"), "that is"),
    (re.compile(r"(?<![\w.])I\.e\.?(?!\w)"), "That is"),
    # The voice takes these for "number" and "Sunday".
    (re.compile(r"(?<![\w.])no\.(?!\w|\s*[0-9])"), "No."),
    (re.compile(r"(?<=\bthe\s)Sun\."), "sun."),
    (re.compile(rf"\b({'|'.join(ACRONYMS)})(?!\w)"), lambda match: ACRONYMS[match[1]]),
]


def _apply(rules: _Rules, text: str) -> str:
    for pattern, how in rules:

        def said(match: re.Match, how=how) -> str:
            words = match.expand(how) if isinstance(how, str) else how(match)
            # What several written words become is said at the last of them.
            return "\t" * (len(_GAPS.findall(match[0])) - len(_GAPS.findall(words))) + words

        text = pattern.sub(said, text)
    return text


def _ascii_digits(text: str) -> str:
    """Digits of other scripts, circles and the like as 0-9, except raised ones, which are powers."""
    if text.isascii():
        return text
    return "".join(
        str(unicodedata.digit(char)) if char.isdigit() and not char.isascii() and char not in _RAISED else char
        for char in text
    )


def _tidy(words: str) -> str:
    """What one written word became, single-spaced, or "" if there is nothing in it to say and no mark."""
    words = " ".join(_PICTURES.sub("", words).translate(_STUMBLES).split())
    if any(char.isalnum() for char in words) or _SIGNS.fullmatch(words):
        return words
    return "".join(char for char in words if char in MARKS)


def spoken(text: str) -> list[tuple[str, str]]:
    """Each whitespace-separated word of a phrase as it is written and as it is said, which may be several words or "".

    Where a pattern spans several written words its words are said at any of them. Raises for no string.

    >>> spoken("**Call** +1 555 123 4567, e.g. now 😀")[-3:]
    [('e.g.', 'for example'), ('now', 'now'), ('😀', '')]
    """
    written = text.split()
    if not written:
        return []
    text = _ascii_digits(text.strip())
    rewritten = _SPACE.sub(lambda space: "\n" if "\n" in space[0] else "\t", text)
    rewritten = _apply(_WORDS, _apply(_ADDRESSES, _apply(_MARKDOWN, rewritten)))
    if any(char.isdigit() for char in rewritten):
        rewritten = _apply(_NUMBERS, rewritten)
    rewritten = _apply(_SYMBOLS, rewritten)
    return [(word, _tidy(words)) for word, words in zip(written, _GAPS.split(rewritten), strict=True)]


def say(text: str) -> str:
    """A phrase as it is said: what `spoken` gives, joined by single spaces.

    >>> say("# Speed\\n- about 5 m/s")
    'Speed, about 5 meters per second'
    """
    return " ".join(words for _, words in spoken(text) if words)
