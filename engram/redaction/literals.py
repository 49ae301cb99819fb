"""Find where a value begins and ends.

A value may be in quotation marks, in a YAML block, in an XML element or in a call that converts a literal, or end at
the next space.
"""

from __future__ import annotations

from engram.system.lazy_regex import lazy_regex

#: Calls that convert a literal to text, bytes or a key, in many languages: `[]byte("…")`, `Buffer.from("…")`.
CONVERTED = (
    r"(?:(?:&|new |await )?(?:\[\](?:byte|rune|u8)|(?:[\w$]{1,24}(?:\(\))?(?:\.|::|->)){0,3}(?:"
    r"String|string|str|QString\w{0,12}|StringPtr|[pP]tr|bytes|bytearray|Data|_T|TEXT|"
    r"Secret(?:String|Str|Bytes|Box|Value|KeySpec)?|Zeroizing|SymmetricSecurityKey|SymmetricKey|Fernet|"
    r"unhexlify|a2b_hex|from_?hex|hex2bin|(?:urlsafe_)?b64decode|base64_decode|decode64|atob|FromBase64String|"
    r"GetBytes|(?:force|smart|to)_bytes|quote_plus|[uU]tf8\.parse|hmacShaKeyFor|Sum256|sha256|"
    r"(?:Buffer|C?String|Bytes|Vec|Secret\w{0,6}|ByteString|Uint8Array|EncodingKey)(?:\.|::)from(?:_str|_secret|_utf8)?|"
    r"(?:Secret\w{0,6}|Zeroizing|C?String)::new|\w{0,12}[eE]ncoder(?:\(\))?\.encode|\w{0,12}[dD]ecoder(?:\(\))?\.decode"
    r"))\(\s{0,8}){1,3}"
)
#: Maximum number of characters before the first parenthesis of such a call.
_CALL_CHARACTERS = 48
_CONVERTED = lazy_regex(CONVERTED + r"(?=[a-zA-Z@$]{0,2}[\"'`])")
_OPENING = lazy_regex(r"\\?(\"{3}|'{3}|[\"'`]|[“])")
_UNQUOTED = lazy_regex(r"[^\s\"'`<>“”]*+")
_CDATA = "<![CDATA["
#: Characters at the end of a value that may belong to the sentence or code around it.
_CLOSING = frozenset(".,;:*\\)]}")
_PAIRS = {")": "(", "]": "[", "}": "{"}
_SIGN = lazy_regex(r"[!@#$%^&*]")
#: Maximum number of characters of a value to read; an unquoted secret is masked to the end of its run.
WORD_LIMIT = 4096
#: Maximum number of lines to read of a YAML block; a longer block is not a password.
_BLOCK_LINES = 8


class Run:
    """The last run of characters that may be an unquoted value, kept so that several names in it read it only once."""

    def __init__(self) -> None:
        self._start = self._end = -1

    def end_from(self, text: str, at: int) -> int:
        if not self._start <= at < self._end:
            match = _UNQUOTED.match(text, at)
            self._start, self._end = at, match.end() if match else at
        return self._end


def literal(text: str, at: int, run: Run) -> tuple[int, int, bool]:
    """Return the beginning and end of the value at `at`, and whether it is quoted."""
    converted = _CONVERTED.match(text, at) if "(" in text[at : at + _CALL_CHARACTERS] else None
    first = converted.end() if converted else at
    if text[first : first + 1] in ("b", "r", "f", "u", "$", "@", "L", "N") and text[first + 1 : first + 2] in (
        "'",
        '"',
    ):
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
    """Return the beginning and end of the lines of the YAML block at `at`, which count as quoted."""
    indent = text[text.rfind("\n", 0, at) + 1 : at]
    limit = min(len(text), at + WORD_LIMIT)
    last = text.find("\n", at, limit)
    for _ in range(_BLOCK_LINES):
        if last < 0 or not text.startswith(indent, last + 1):
            break
        last = text.find("\n", last + 1, limit)
    last = last if last >= 0 else limit
    return at, last - (text[last - 1] == "\r"), True


def element(text: str, at: int) -> tuple[int, int] | None:
    """Return the beginning and end of the text of the XML element at `at`; None if it contains other elements."""
    is_marked = text.startswith(_CDATA, at)
    first = at + len(_CDATA) if is_marked else at
    last = text.find("]]>" if is_marked else "<", first, first + WORD_LIMIT)
    if last < 0 or not (is_marked or text.startswith("</", last)):
        return None
    while first < last and text[first].isspace():
        first += 1
    while last > first and text[last - 1].isspace():
        last -= 1
    return first, last


def _trailing(value: str) -> int:
    """Return the number of characters at the end of an unquoted value that belong to the sentence or code around it."""
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
