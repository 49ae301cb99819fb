"""Stored text as the page shows it: nothing hidden, nothing that reorders what stands beside it."""

from __future__ import annotations

from engram.redaction.display import is_hidden

#: Hidden characters of ordinary text, which are left out: joiners and selectors of emoji, and the soft hyphen.
LEFT_OUT = frozenset("\u200d\ufe0e\ufe0f\u00ad")
#: Characters of ordinary text that are no hidden ones here.
LAYOUT = frozenset("\n\t")


def spell_hidden(text: str) -> str:
    """Return the text with every hidden character spelled out, such as ``⟨U+202E⟩``; lines and tabs stay.

    Control characters, invisible and bidirectional ones and lone surrogates could hide or reorder what is shown.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_spelled(char) for char in text.replace("\r\n", "\n"))


def _spelled(char: str) -> str:
    if char in LAYOUT or not is_hidden(char):
        return char
    return "" if char in LEFT_OUT else f"⟨U+{ord(char):04X}⟩"
