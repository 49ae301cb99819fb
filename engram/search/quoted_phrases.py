"""Parse the quoted phrases of a question, and find them in a text. Pure."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Sequence

from engram.system.lazy_regex import lazy_regex
from engram.text.splitting import sentence_spans
from engram.text.words import UNSPACED_LETTERS, is_unspaced

#: A phrase between matching quotation marks.
_QUOTED = lazy_regex(r"\"([^\"]+)\"|[“„]([^“”„]+)[“”]|«([^«»]+)»|»([^«»]+)«|「([^「」]+)」|『([^『』]+)』")
#: A word that names something in code: camelCase or under_scored.
_NAME = lazy_regex(r"[\w$]*(?:[a-z0-9][A-Z]|[^\W_]_[^\W_])[\w$]*")
#: A word, white space, or one punctuation mark.
_PART = lazy_regex(r"\w+|\s+|[^\w\s]")
#: Punctuation at the end of a quoted sentence, which is not part of the phrase.
_END_SIGNS = ".,;:!?…。，、！？ \t\n"
#: Characters that are interchangeable: quotes and dashes.
_ALIKE = ("'’‘ʼ`", '"“”„«»', "-‐‑‒–—−")
#: Characters that may separate two words of a phrase, such as a line break, a comma or Markdown emphasis.
_GAP = r"[\W_]{1,8}?"
#: A letter or digit that would continue a word, in scripts with spaces.
_SPACED_LETTER = rf"[^\W{UNSPACED_LETTERS}]"
#: The combining dot above, which may follow an i.
_DOT = "\N{COMBINING DOT ABOVE}?"
#: Maximum number of words shown around a phrase, including it.
_MAX_SHOWN_WORDS = 60


def phrases_of(text: str) -> tuple[str, ...]:
    """Return the quoted phrases of a question that contain a word, in order, without duplicates."""
    quoted = (next(filter(None, match.groups())).strip().rstrip(_END_SIGNS) for match in _QUOTED.finditer(text))
    return tuple(dict.fromkeys(phrase for phrase in quoted if re.search(r"\w", phrase)))


def only_name(text: str) -> str:
    """Return the name in code that is all that a question consists of; "" for any other question."""
    word = text.strip(" `'\"?()")
    return word if _NAME.fullmatch(word) else ""


def find_phrases(text: str, phrases: Sequence[str]) -> list[tuple[int, int]]:
    """Return the first span of each phrase in a text, in characters; empty unless the text contains all of them.

    Case, line breaks and the style of quotes and dashes are ignored; other punctuation within a phrase must match.
    """
    found = [re.search(_pattern(phrase), text, re.IGNORECASE) for phrase in phrases]
    return [match.span() for match in found if match] if all(found) else []


def text_around(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return the sentences that contain ``spans``, extended by those that follow and those that precede, up to 60
    words.
    """
    sentences = sentence_spans(text)
    start, stop = min(span[0] for span in spans), max(span[1] for span in spans)
    chosen = [place for place, (first, last) in enumerate(sentences) if last > start and first < stop]
    if not chosen:
        return text[start:stop]
    low, high = chosen[0], chosen[-1]
    while len(text[sentences[low][0] : sentences[high][1]].split()) > _MAX_SHOWN_WORDS and low < high:
        high -= 1
    for step in (1, -1):
        while 0 <= (wider := high + 1 if step > 0 else low - 1) < len(sentences):
            bounds = (low, wider) if step > 0 else (wider, high)
            if len(text[sentences[bounds[0]][0] : sentences[bounds[1]][1]].split()) > _MAX_SHOWN_WORDS:
                break
            low, high = bounds
    return _cut_around(text, (sentences[low][0], sentences[high][1]), (start, stop))


def _cut_around(text: str, shown: tuple[int, int], phrase: tuple[int, int]) -> str:
    """Return the text at ``shown``; if it is longer than 60 words, only the words around the phrase."""
    words = list(re.finditer(r"\S+", text[slice(*shown)]))
    if len(words) <= _MAX_SHOWN_WORDS:
        return text[slice(*shown)]
    at = next((place for place, word in enumerate(words) if shown[0] + word.end() > phrase[0]), 0)
    first = max(0, min(at - _MAX_SHOWN_WORDS // 4, len(words) - _MAX_SHOWN_WORDS))
    kept = words[first : first + _MAX_SHOWN_WORDS]
    before, after = "… " if first else "", " …" if kept[-1] is not words[-1] else ""
    return f"{before}{text[shown[0] + kept[0].start() : shown[0] + kept[-1].end()]}{after}"


def _pattern(phrase: str) -> str:
    parts = _PART.findall(phrase)
    pattern = ""
    for place, part in enumerate(parts):
        if part.isspace():
            is_between_words = _is_word(parts[place - 1]) and _is_word(parts[place + 1])
            pattern += _GAP if is_between_words else r"\s*"
        else:
            pattern += "".join(map(_any_form, part)) if _is_word(part) else _any_of(part)
    before = f"(?<!{_SPACED_LETTER})" if _ends_alone(parts[0][0]) else ""
    after = f"(?!{_SPACED_LETTER})" if _ends_alone(parts[-1][-1]) else ""
    return before + pattern + after


def _any_form(letter: str) -> str:
    """Return a pattern for a letter that also matches if some or all of its accents are separate characters, in any
    order.

    An i may be followed by a combining dot: questions contain I instead of İ, and a text may contain İ as I and a dot.
    """
    if letter in "iI":
        return letter + _DOT
    apart = unicodedata.normalize("NFD", letter)
    orders = itertools.permutations(apart[1:])
    split = {
        unicodedata.normalize("NFC", apart[0] + "".join(marks[:number])) + "".join(marks[number:])
        for marks in orders
        for number in range(len(apart))
    }
    forms = sorted(form for form in split if unicodedata.normalize("NFD", form) == apart)
    return "(?:" + "|".join(map(re.escape, forms)) + ")" if len(forms) > 1 else re.escape(letter)


def _any_of(sign: str) -> str:
    alike = next((signs for signs in _ALIKE if sign in signs), sign)
    return "[" + "".join(re.escape(char) for char in alike) + "]"


def _is_word(part: str) -> bool:
    return part[0].isalnum() or part[0] == "_"


def _ends_alone(letter: str) -> bool:
    """Return whether a phrase that begins or ends with this letter must do so at the edge of a word.

    Scripts without spaces don't mark the edges of words.
    """
    return _is_word(letter) and not is_unspaced(letter)
