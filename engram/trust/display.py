"""Make text safe to show (no control characters, nothing that closes a fence, no links, one line), and safe to type."""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Iterable

from engram.system.lazy_regex import lazy_regex

_ANSI = lazy_regex(
    r"(?:\x1b\]|\x9d)[^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)?|(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]?|\x1b[ "
    r"-/]{0,8}[0-~]?"
)
_LINE_BREAKS = lazy_regex(r"\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
_URL = lazy_regex(
    r"[A-Za-z][A-Za-z0-9+.-]{0,30}:(?://|\\\\|/{1,8})[^\s`'\"<>()\[\]{}‹›]*|(?i:www\.)[^\s`'\"<>()\[\]{}‹›]*"
)
_SCHEME_ONLY = lazy_regex(r"(?i)\b(?:javascript|data|vbscript|mailto|file|blob)\s*:\s*(?=\S)[^\s`'\"<>()\[\]{}‹›]*")
_AUTHORITY = lazy_regex(r"[A-Za-z][A-Za-z0-9+.-]*:[/\\]+|")
_HOST = lazy_regex(r"[\w.-]+")
_ENTITY = lazy_regex(r"(?i)&(?:amp;)*(lt|gt|#0*60|#0*62|#x0*3c|#x0*3e|grave|#0*96|#x0*60);?")
#: Characters that could open or close a fence, and their replacements.
_ANGLES = str.maketrans({"<": "‹", ">": "›", "＜": "‹", "＞": "›", "﹤": "‹", "﹥": "›", "｀": "'"})
#: Any text of plain characters that must be changed contains at least one of these.
_FENCE_MARK = lazy_regex("[<>&`~]")
_BACKTICKS = lazy_regex(r"`{2,}")
_TILDES = lazy_regex(r"~{3,}")
_BLANKS = lazy_regex(r"\s+")
#: Characters that may be hidden.
#: Signs that have a meaning for a shell inside double quotes, or end a line.
_SHELL_SIGNS = lazy_regex(r'["$`\\!\n\r]')
_UNPLAIN = lazy_regex(r"[^\n\t\r -~]")
#: Shown where text was truncated.
ELLIPSIS = "…"


def visible(text: str, *, keep_lines: bool = False) -> str:
    """Return the text in a form that cannot steer, hide or reorder anything on a terminal or for a model.

    ANSI sequences, control, invisible and bidirectional characters and lone surrogates are removed; everything else
    is kept. A second call changes nothing.

    Args:
        text: any stored text, such as a project's name.
        keep_lines: keep line breaks (as `\\n`) instead of turning each into a blank.
    """
    if text.isascii() and text.isprintable():
        return text
    previous = None
    while previous != text:
        previous = text
        text = _LINE_BREAKS.sub("\n" if keep_lines else " ", _ANSI.sub("", text))
        if not (text.isascii() and text.isprintable()):
            text = _UNPLAIN.sub(lambda found: "" if is_hidden(found[0]) else found[0], text).replace("\t", " ")
    return text


def escape_hidden(json_text: str) -> str:
    r"""Return JSON with every character that `visible` would drop written as `\uXXXX`; values do not change."""
    if json_text.isascii() and "\x7f" not in json_text:
        return json_text
    return "".join(json.dumps(c)[1:-1] if c != "\n" and is_hidden(c) else c for c in json_text)


def fence_safe(text: str, *, keep_lines: bool = False) -> str:
    """Return the text in a form that cannot close its fence, hide anything or steer a terminal.

    Control characters, ANSI sequences, invisible and bidirectional characters and lone surrogates are removed; `<` and
    `>` become `‹` and `›`; runs of two or more backticks become the same number of `'`. A second call changes nothing.

    Args:
        keep_lines: keep line breaks (as `\\n`) instead of turning each into a blank.
    """
    if text.isascii() and text.isprintable() and not _FENCE_MARK.search(text):
        return text
    previous = None
    while previous != text:
        previous = text
        text = visible(text, keep_lines=keep_lines)
        text = _ENTITY.sub(_shown_entity, text).translate(_ANGLES)
        text = _BACKTICKS.sub(lambda m: "'" * len(m.group()), text)
        text = _TILDES.sub(lambda m: "-" * len(m.group()), text)
    return text


def one_line(text: str, limit: int) -> str:
    """Return the text as one safe line of at most `limit` characters, with every link replaced by its host.

    It is truncated at the end of a word if there is one in the last fifth, with `…` in place of the rest. If the number
    of backticks is odd, the last one is dropped, so that nothing after the line is taken for code.
    """
    text = fence_safe(text)
    previous = None
    while previous != text:
        previous = text
        text = _SCHEME_ONLY.sub("(link)", _URL.sub(_host_of, text))
    text = _BLANKS.sub(" ", text).strip()
    if len(text) > limit:
        text = cut_at_word(text, limit)
    if text.count("`") % 2:
        at = text.rindex("`")
        text = (text[:at] + text[at + 1 :]).strip()
    return text


def hidden_characters(text: str) -> int:
    """Return how many characters are invisible, bidirectional or control characters (except breaks and tabs)."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return 0
    return sum(map(is_hidden, _UNPLAIN.findall(text)))


def is_hidden(char: str) -> bool:
    """Return True for an invisible, bidirectional or control character, or a lone surrogate; also for line breaks."""
    code = ord(char)
    if code < 0x20 or 0x7F <= code <= 0x9F or code == 0x34F:
        return True
    if code < 0xAD:
        return False
    if 0xFE00 <= code <= 0xFE0F or 0xE0000 <= code <= 0xE0FFF or code in (0x115F, 0x1160, 0x3164, 0xFFA0, 0x2800):
        return True
    return unicodedata.category(char) in ("Cf", "Cs", "Cc", "Co", "Zl", "Zp")


def _shown_entity(match: re.Match[str]) -> str:
    name = match.group(1).lower().lstrip("#")
    if name == "grave" or name.lstrip("0") == "96" or (name[0] == "x" and name.lstrip("x0") == "60"):
        return "'"
    return "‹" if name in ("lt",) or name.lstrip("x0") in ("60", "3c") else "›"


def _host_of(match: re.Match[str]) -> str:
    rest = match.group()
    scheme = _AUTHORITY.match(rest)
    rest = rest[scheme.end() :] if scheme else rest
    authority = re.split(r"[/?#\\]", rest, maxsplit=1)[0].rpartition("@")[2]
    host = _HOST.match(authority)
    name = host.group().rstrip(".") if host else ""
    while name.lower().startswith("www."):
        name = name[4:]
    return name if name.strip(".") else "(link)"


def cut_at_word(text: str, limit: int) -> str:
    """Return at most `limit` characters of a text: cut at the end of a word if there is one in the last fifth."""
    if len(text) <= limit:
        return text
    if limit <= 0:
        return ""
    kept = text[: limit - 1]
    blank = kept.rfind(" ", limit - limit // 5)
    return (kept[:blank] if blank > 0 else kept).rstrip() + ELLIPSIS


#: Maximum length of an error message, and how much of both ends of a longer one is shown, in characters.
MAX_MESSAGE, _MESSAGE_HEAD, _MESSAGE_TAIL = 1_000, 500, 300


def shortened(message: str) -> str:
    """Return an error message without the middle of a long text that it quotes, such as a pasted argument.

    What it says about that text, and what to do, comes before and after it.
    """
    if len(message) <= MAX_MESSAGE:
        return message
    return f"{message[:_MESSAGE_HEAD]} {ELLIPSIS} {message[-_MESSAGE_TAIL:]}"


def as_arguments(*values: str) -> str:
    """Return the arguments of a printed command, for use after its options: quoted, and not mistaken for options."""
    return "-- " * any(value.startswith("-") for value in values) + " ".join(map(shell_quoted, values))


def shell_quoted(value: str) -> str:
    """Return a text quoted for a shell; an apostrophe in it is readable if nothing else in it has a meaning there.

    Hidden characters, which are not printed, are written as bash and zsh read them: ``$'\\x1b'``.
    """
    if any(map(is_hidden, value)):
        plain = value.replace("\\", "\\\\").replace("'", "\\'")
        return "$'" + "".join(_as_bytes(char) if is_hidden(char) else char for char in plain) + "'"
    return f'"{value}"' if "'" in value and not _SHELL_SIGNS.search(value) else shlex.quote(value)


def _as_bytes(char: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in char.encode(errors="surrogateescape"))


def nearest_names(word: str, known: Iterable[str], most: int = 1) -> list[str]:
    """Return the known names that a mistyped name may mean, nearest first; case is ignored, and - equals _."""
    from difflib import get_close_matches  # needed only for an error message

    plain = {_without_style(name): name for name in known}
    meant = _without_style(word)
    return [plain[name] for name in ([meant] if meant in plain else get_close_matches(meant, plain, n=most))]


def _without_style(name: str) -> str:
    return name.lower().replace("_", "-")


def number_of(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun, such as ``1 turn`` and ``0 memories``."""
    many = many or (f"{one.removesuffix('y')}ies" if one.endswith("ry") else f"{one}s")
    return f"{number:,} {one if number == 1 else many}"


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun, such as ``2 turns``; "" for 0."""
    return number_of(number, one, many) if number else ""


def span(seconds: float | None) -> str:
    """Return a duration in words, such as 8 s, 3 min, 2 h or 5 days; "–" for None."""
    if seconds is None:
        return "–"
    for size, name in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"


def capitalised(text: str) -> str:
    """Return text with its first letter capitalised."""
    return text[:1].upper() + text[1:]
