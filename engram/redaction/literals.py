"""Where a value begins and ends: in quotation marks, in blocks of YAML, in elements of XML, within calls that convert a
literal, or up to the next blank.
"""

from __future__ import annotations

from engram.system.lazy_regex import lazy_regex

_OPENING = lazy_regex(r"\\?(\"{3}|'{3}|[\"'`]|[“])")
_UNQUOTED = lazy_regex(r"[^\s\"'`<>“”]*+")
#: Characters at the end of a value that may belong to the sentence or code around it.
_CLOSING = frozenset(".,;:*\\)]}")
_PAIRS = {")": "(", "]": "[", "}": "{"}
_SIGN = lazy_regex(r"[!@#$%^&*]")
#: How many characters of a value are read; an unquoted secret is masked to the end of its run.
WORD_LIMIT = 4096
#: Maximum number of lines of a YAML block that are read; anything longer is not a password.
_BLOCK_LINES = 8


class Run:
    """The last run of characters that may be an unquoted value. It is kept so that several names in one run read it
    only once.
    """

    def __init__(self) -> None:
        self._start = self._end = -1

    def end_from(self, text: str, at: int) -> int:
        if not self._start <= at < self._end:
            match = _UNQUOTED.match(text, at)
            self._start, self._end = at, match.end() if match else at
        return self._end


def literal(text: str, at: int, run: Run) -> tuple[int, int, bool]:
    """Return where the value at `at` begins and ends, and whether it is quoted."""
    first = at
    if text[first : first + 1] in ("b", "r", "f", "u", "$") and text[first + 1 : first + 2] in ("'", '"'):
        first += 1
    opening = _OPENING.match(text, first)
    if opening:
        quote = opening.group().replace("“", "”")
        stop = text.find(quote, opening.end(), opening.end() + WORD_LIMIT)
        newline = text.find("\n", opening.end(), opening.end() + WORD_LIMIT)
        if stop >= 0 and (newline < 0 or stop < newline):
            return opening.end(), stop, True
        first = opening.end()
    end = min(run.end_from(text, first), first + WORD_LIMIT)
    if end - first < 3:
        return first, first, False
    return first, end - _trailing(text[first:end]), False


def block(text: str, at: int) -> tuple[int, int, bool]:
    """Return where the lines of the YAML block at `at` begin and end; they count as quoted."""
    indent = text[text.rfind("\n", 0, at) + 1 : at]
    limit = min(len(text), at + WORD_LIMIT)
    last = text.find("\n", at, limit)
    for _ in range(_BLOCK_LINES):
        if last < 0 or not text.startswith(indent, last + 1):
            break
        last = text.find("\n", last + 1, limit)
    last = last if last >= 0 else limit
    return at, last - (text[last - 1] == "\r"), True


def _trailing(value: str) -> int:
    """Return how many characters at the end of an unquoted value belong to the sentence or code around it."""
    cut = value
    for mark in (";", "\\n", "\\r", "\\t", ",") if "\\" in cut else (";", ","):
        at = cut.find(mark)
        if at >= 4 and (mark != "," or at == len(cut) - 1 or "=" in cut[at:] or ":" in cut[at:]):
            cut = cut[:at]
    stop = len(cut)
    if cut and cut[-1] in _CLOSING:
        sign = _SIGN.search(cut)
        signed = sign.start() if sign else stop
        unopened = {close: cut.count(close) - cut.count(opening) for close, opening in _PAIRS.items()}
        while stop and cut[stop - 1] in _CLOSING:
            last = cut[stop - 1]
            if last in _PAIRS:
                if unopened[last] <= 0 or signed < stop - 1:
                    break
                unopened[last] -= 1
            stop -= 1
    return len(value) - stop
