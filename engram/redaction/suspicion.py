"""Rules against planted instructions: does a text that would become a memory try to give orders?

Nobody's text may carry forged roles, hidden characters, orders to forget the rules, or commands that fetch and run.
What was pasted, quoted, relayed or imported may say of a project what it likes, but not direct the agent or the user
(`engram.redaction.conduct`). What comes in from outside is judged whole, its names included.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import chain
from urllib.parse import unquote

from engram.redaction.conduct import order_in
from engram.redaction.display import hidden_characters
from engram.redaction.suspicion_rules import RULES, lower_case

#: Characters of a text that are judged at once; longer texts are judged in overlapping pieces.
_PIECE = 20_000


_CONFUSABLE = str.maketrans(
    "аеорсухіјѕһԁɡոⅼνοαειкмтвнАЕОРСУХІЅНКМТВΑΒΕΗΙΚΜΝΟΡΤΧΥΖıł",
    "aeopcyxijshdgnlvoaeikmtbhAEOPCYXISHKMTBABEHIKMNOPTXYZil",
)
#: Where combining characters can be.
_BEYOND_LATIN = re.compile(r"[^\x00-\u02ff]+")
_SPACED = re.compile(r"\b(?:\w[ .\-_*]){5,}\w\b")
_LEET = str.maketrans("013457@$", "oieastas")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{20,}={0,2}")
#: Text in hex digits: no byte of ASCII is above 7f. What begins with a set of characters is found twice as fast.
_HEX = re.compile(
    r"[0-7](?:[0-9a-fA-F][ :,]?(?:[0-7][0-9a-fA-F][ :,]?){15,}|(?<=0)x[0-9a-fA-F]{2},? ?(?:0x[0-9a-fA-F]{2},? ?){7,})"
)
_HEX_ESCAPES = re.compile(r"(?:\\x[0-9a-fA-F]{2}){6,}")
_ESCAPES = re.compile(
    r"(?:\\u[0-9a-fA-F]{4}){4,}|(?:%[0-9a-fA-F]{2}){5,}|(?:&#x?[0-9a-fA-F]{2,6};){4,}|(?:\b[01]{8}\b ?){6,}|"
    r"(?:\\[0-7]{3}){6,}"
)
#: Whatever ``_ESCAPES`` finds has one of these in it, or eight bits.
_ESCAPE_MARKS, _BITS = ("\\", "%", "&#"), re.compile("[01]{8}")
#: More characters of base64 or of hex than a name has.
_LONG = re.compile(r"[A-Za-z0-9+/]{60,}={0,2}")
#: The digest of a file, in hex or (sha512, sha384) in base64.
_DIGEST = re.compile(r"[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128}|[A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{86}==")
#: Where the words of a name end.
_BETWEEN_WORDS, _CAMEL = re.compile(r"[ \t_.+-]+"), re.compile(r"(?<=[a-z])(?=[A-Z])")
_BETWEEN_FOLDERS = re.compile(r"[/\\]+")
_TALKATIVE = re.compile(r"[A-Za-z]{2}[ ,.'/-]{1,3}[A-Za-z]{2}")


def why_suspect(text: str, *, is_typed: bool, is_assistant: bool = False) -> str | None:
    """Return in a few words why the text must not be injected as a memory; None if it may be.

    Args:
        text: the future memory, or the part of a prompt that it comes from.
        is_typed: the user typed it (see `split_typed`): it may order what it likes.
        is_assistant: the assistant wrote it, of its own work. Anything else is relayed: it may not order conduct.
    """
    hidden = hidden_characters(text)
    if hidden and hidden > _allowed_hidden(text):
        return "hidden characters"
    is_relayed = not (is_typed or is_assistant)
    for start in range(0, max(len(text), 1), _PIECE - 500):
        piece = text[start : start + _PIECE]
        for reading in _readings(piece):
            reason = _first_reason(reading, is_relayed=is_relayed)
            if reason:
                return reason
        reason = _encoded(piece, is_relayed=is_relayed)
        if reason:
            return reason
    return None


def why_any_suspect(texts: Iterable[str], names: Iterable[str] = (), *, is_assistant: bool = False) -> str | None:
    """Return why a memory that comes from outside is suspect, judged whole; None if it is not.

    Args:
        texts: its summary, content, facts and questions.
        names: of the things that it is about, of files, branches and projects.
        is_assistant: as for ``why_suspect``.
    """
    said: list[str] = []
    for text in texts:
        # A summary is mostly the beginning of the content: nothing is judged twice.
        if text and not any(text in other for other in said):
            said = [other for other in said if other not in text]
            said.append(text)
    reason = why_suspect("\n".join(said), is_typed=False, is_assistant=is_assistant)
    return reason or next((reason for name in names if (reason := why_name_suspect(name))), None)


def why_name_suspect(name: str) -> str | None:
    """Return why a name must not be shown, since it reads like an order; None if it may be.

    Args:
        name: of a file, a branch, a project or a thing: its words may be joined by anything.
    """
    words = _BETWEEN_WORDS.sub(" ", _CAMEL.sub(" ", _BETWEEN_FOLDERS.sub("\n", name)))
    return why_suspect(name, is_typed=False) or (why_suspect(words, is_typed=False) if words != name else None)


def _allowed_hidden(text: str) -> int:
    """Return how many harmless hidden characters the text has: joiners, emoji selectors, returns, icon fonts."""
    return sum(1 for c in text if c in "\ufe0f\ufe0e\u200d" or 0xE000 <= ord(c) <= 0xF8FF)


def _readings(text: str) -> Iterator[str]:
    """Yield the text as it is, and as it reads when disguised letters are replaced."""
    plain = unicodedata.normalize("NFKC", text)
    yield plain
    unmasked = html.unescape(plain)
    if not unmasked.isascii():
        unmasked = unmasked.translate(_CONFUSABLE)
        unmasked = _BEYOND_LATIN.sub(_without_combining, unicodedata.normalize("NFKD", unmasked))
    if unmasked != plain:
        yield unmasked
    joined = _SPACED.sub(lambda m: re.sub(r"[ .\-_*]", "", m.group()), unmasked)
    if joined != unmasked:
        yield joined
    if plain.count("%") >= 3:
        yield unquote(plain)
    if re.search(r"[A-Za-z][013457@$][A-Za-z]", unmasked):
        yield unmasked.translate(_LEET)


def _without_combining(match: re.Match[str]) -> str:
    return "".join(char for char in match.group() if not unicodedata.combining(char))


def _first_reason(text: str, *, is_relayed: bool) -> str | None:
    lower = lower_case(text)
    for rule in RULES:
        if (is_relayed or rule.scope == "all") and rule.shows_in(text, lower):
            return rule.reason
    return order_in(text.lower()) if is_relayed else None


def _encoded(text: str, *, is_relayed: bool) -> str | None:
    """Return why an encoded payload is suspect: for what it decodes to, or in relayed text for its presence."""
    for decoded in _decoded(text):
        if _TALKATIVE.search(decoded) and (is_relayed or _first_reason(decoded, is_relayed=True)):
            return "encoded text"
    if any(_shows_orders(turned) for turned in (codecs.decode(text, "rot13"), text[::-1])):
        return "encoded text"
    if is_relayed and any(not _DIGEST.fullmatch(match.group()) for match in _LONG.finditer(text)):
        return "encoded text"
    return None


def _shows_orders(text: str) -> bool:
    return RULES[0].shows_in(text, lower_case(text))


def _decoded(text: str) -> Iterator[str]:
    for match in _BASE64.finditer(text):
        body = match.group().replace("-", "+").replace("_", "/").rstrip("=")
        try:
            raw = base64.b64decode(body + "=" * (-len(body) % 4))
        except (binascii.Error, ValueError):
            continue
        yield from _as_text(raw)
    for match in chain(_HEX.finditer(text), _HEX_ESCAPES.finditer(text) if "\\x" in text else ()):
        digits = re.sub(r"\\x|0x|[^0-9a-fA-F]", "", match.group())
        yield from _as_text(bytes.fromhex(digits[: len(digits) // 2 * 2]))
    may_have_escapes = any(mark in text for mark in _ESCAPE_MARKS) or _BITS.search(text)
    for match in _ESCAPES.finditer(text) if may_have_escapes else ():
        body = match.group()
        if body.startswith("%"):
            yield unquote(body)
        elif body.startswith("&"):
            yield html.unescape(body)
        elif body.startswith("\\u"):
            yield "".join(chr(int(code, 16)) for code in re.findall(r"\\u([0-9a-fA-F]{4})", body))
        elif body.startswith("\\"):
            yield "".join(chr(int(code, 8)) for code in re.findall(r"\\([0-7]{3})", body))
        else:
            yield "".join(chr(int(code, 2)) for code in body.split())


def _as_text(raw: bytes) -> Iterator[str]:
    for encoding in ("utf-8", "utf-16-le"):
        try:
            decoded = raw.decode(encoding)
        except UnicodeDecodeError:
            continue
        if decoded.isascii() and sum(c.isprintable() or c in "\n\t" for c in decoded) >= 0.95 * len(decoded):
            yield decoded
