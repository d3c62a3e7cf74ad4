"""Sound to words."""

import re

# What recognisers write for sound without words: [BLANK_AUDIO], (music), *coughs*.
ASIDES = re.compile(r"\[[^\]]*\]|\([^)]*\)|\*[^*]*\*|<\|[^|]*\|>")


def words(text: str) -> str:
    """The transcript without asides and doubled spaces; empty when nothing was said."""
    text = " ".join(ASIDES.sub(" ", text).split())
    return text if any(char.isalnum() for char in text) else ""
