"""Cut a reply that is still being written into phrases that can be spoken."""

from __future__ import annotations

FIRST_WORDS = 3  # the first phrase has at least this many words, or is the whole reply
FIRST_MOST = 8  # ... and at most this many, so that the wait for a comma has an end
LATER_WORDS = 4  # a clause shorter than this waits for the next
LATER_MOST = 24
STOPS = ".!?"
MARKS = STOPS + ",;:"
QUOTES = "\"')\u201d\u2019"
ABBREVIATIONS = frozenset(["Mr", "Mrs", "Ms", "Dr", "St", "Prof", "vs", "etc", "No"])


class PhraseCutter:
    """Feed text as it comes; phrases come out as soon as they can be spoken.

    The first phrase is cut early (any mark, at least 3 words, at most 8): it decides the response time. Later ones
    are spoken while an earlier one is heard, so they are cut at the end of a clause, which sounds better.
    """

    def __init__(self) -> None:
        self._rest = ""
        self._first = True

    def feed(self, text: str) -> list[str]:
        """Add text; return the phrases that are complete now, without the space around them."""
        # The rest is empty just after a cut: a mark or closing quote that comes only now is not spoken.
        self._rest += text if self._rest or self._first else text.lstrip(MARKS + QUOTES)
        found = []
        while (cut := self._cut()) is not None:
            found.append(self._rest[:cut].strip())
            self._rest = self._rest[cut:]
            self._first = False
        return found

    def end(self) -> list[str]:
        """The reply is complete: whatever is left is the last phrase."""
        phrase, self._rest = self._rest.strip(), ""
        return [phrase] if any(char.isalnum() for char in phrase) else []

    def _cut(self) -> int | None:
        """Where the next phrase ends in the rest, or None while that is not known."""
        text = self._rest
        least, most = (FIRST_WORDS, FIRST_MOST) if self._first else (LATER_WORDS, LATER_MOST)
        words = 0
        in_word = False
        for index, char in enumerate(text):
            if char.isspace():
                if in_word:
                    words += 1
                    in_word = False
                    if words >= most:
                        return index
                if char == "\n" and words >= least:
                    return index
                continue
            if char in MARKS and words + in_word >= least and self._ends_here(text, index):
                return self._past_marks(text, index)
            in_word = in_word or char.isalnum()
        return None

    @staticmethod
    def _ends_here(text: str, index: int) -> bool:
        """Whether the mark at `index` ends a clause: not inside 3.14, 10:30, 1,000, e.g., U.S. or Mr."""
        word = (text[:index].rsplit(None, 1) or [""])[-1]
        if text[index] == "." and (word in ABBREVIATIONS or ("." in word and word[:1].isalpha())):
            return False
        following = text[index + 1 : index + 2]
        if following:
            return following.isspace() or following in MARKS + QUOTES
        # Nothing follows yet. After a digit the number may go on, after a letter or two so may an abbreviation.
        return not (word[-1:].isdigit() or (text[index] == "." and len(word) < 2))

    @staticmethod
    def _past_marks(text: str, index: int) -> int:
        while index < len(text) and (text[index] in MARKS or text[index] in QUOTES):
            index += 1
        return index
