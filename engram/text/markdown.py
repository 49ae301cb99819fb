"""Show Markdown on a terminal: remove markup that can only be markup, and indent code. Pure functions.

In transcripts, many asterisks, brackets and bars are code: patterns, formulas, calls, SQL. So markup is removed only in
    pairs, and only if there is a blank or punctuation outside of the pair. Doubtful text is left unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, auto

from engram.system.lazy_regex import lazy_regex

#: A letter or punctuation mark of a script that has no blanks between words.
_CJK = r"\u2e80-\u9fff\uac00-\ud7af\uff00-\uffef"
#: A code span, in which asterisks and brackets are not markup.
_CODE = r"`[^`]*+`"
#: A position after a blank or an opening punctuation mark, or at the beginning.
_BEFORE = rf"(?<![^\s(“‘«„—–{_CJK}])"
#: Code; or words between two or three asterisks, unless they begin or end like a path, an argument or a pattern.
_BOLD = lazy_regex(
    rf"{_CODE}|{_BEFORE}(?P<mark>\*\*\*?)(?=[\"“‘«„(#$@.~-]{{0,2}}[\w`{_CJK}])(?P<words>(?:[^*`]|{_CODE})++)"
    rf"(?<=[\w`\"”’»).:!?…%+{_CJK}])(?P=mark)(?=[\s,;:!?)’'”»…—–{_CJK}]|\.(?!\w)|$)"
)
#: Code; or a link to an address, a path or a heading, with at least one letter in its text.
_LINK = lazy_regex(
    rf"{_CODE}|(?:{_BEFORE}|(?<=\*\*))\[(?=(?:[^\[\]\w]|[\d_])*+[^\W\d_])(?P<words>(?:[^\[\]`]|{_CODE})++)\]"
    r"\((?=[^()\s/#]*+[/#])[^()\s`\\]++(?:\([^()\s`\\]*+\)[^()\s`\\]*+)?(?: \"[^\"]*+\")?\)(?![\w(\[])"
)
#: The beginning of a code block, with its name, or the end of one.
_FENCE = lazy_regex(r"\s*+(`{3,}+|~{3,}+)([^`]*+)$")
#: Marks of a heading. A single one may begin a comment.
_HEADING = lazy_regex(r"#{2,6} ")
#: A line that is never part of a paragraph: code, a heading or a row.
_ALONE = lazy_regex(r"    |\||#{1,6} ")
_BLOCK = lazy_regex(r"\s*+(?:[-*+•] |\d{1,3}[.)] |#{1,6} |[|>]|`{3}|~{3})")
_BULLET = lazy_regex(r"(?:[-*+•]|\d{1,3}[.)]) ")
#: A backslash that ends a line of prose, as Claude Code's users type a line break: alone, or after a word that is not
#: a path. One after a blank continues a command, unless nothing follows in the next line.
_BREAK = lazy_regex(r"(?:^\s*+|(?<!\S)(?![A-Za-z]:\\)(?P<word>[^\s\\]++))\\$")
#: Code, an escaped character, or the bar between two cells.
_BAR = lazy_regex(rf"({_CODE}|\\.)|\|")


class LineKind(Enum):
    PROSE = auto()
    #: The first or the last line of a code block.
    FENCE = auto()
    CODE = auto()
    #: Either prose or code, because a code block has no beginning or no end.
    UNKNOWN = auto()


def kinds_of(lines: Sequence[str]) -> list[LineKind]:
    kinds, fence = [], ""
    for line in lines:
        found = _FENCE.match(line)
        if found and not fence:
            fence = found[1]
            kinds.append(LineKind.FENCE)
        elif found and found[1].startswith(fence) and not found[2].strip():
            fence = ""
            kinds.append(LineKind.FENCE)
        else:
            kinds.append(LineKind.CODE if fence else LineKind.PROSE)
    return [LineKind.UNKNOWN] * len(kinds) if fence else kinds


def without_bullet(text: str) -> str:
    """Return a text without the bullet or number of a list item at its beginning."""
    text = text.lstrip()
    mark = _BULLET.match(text)
    return text[mark.end() :] if mark else text


def begins_block(text: str) -> bool:
    """Return True if a text begins with a list, a table, a quotation, a heading or code, and not with a paragraph."""
    return _BLOCK.match(text) is not None


def paragraphs_of(lines: Sequence[str]) -> Iterator[tuple[list[str], LineKind]]:
    """Yield lines in groups of one kind: those of a paragraph or list item together, and every other line alone."""
    group: list[str] = []
    for line, kind in zip(lines, kinds_of(lines), strict=True):
        is_alone = kind in (LineKind.CODE, LineKind.FENCE) or not line.strip() or _ALONE.match(line)
        if group and (is_alone or _BULLET.match(line.strip())):
            yield group, LineKind.PROSE
            group = []
        if is_alone:
            yield [line], kind
        else:
            group.append(line)
    if group:
        yield group, LineKind.PROSE


def without_breaks(text: str) -> str:
    """Return a text whose lines of prose don't end in the backslash that was typed for a line break.

    A line that is indented like code keeps it.
    """
    lines = [line.rstrip() for line in text.split("\n")]
    kinds = kinds_of(lines)
    return "\n".join(
        _without_break(line, following) if kind is LineKind.PROSE and not line.startswith("    ") else line
        for line, kind, following in zip(lines, kinds, [*lines[1:], ""], strict=True)
    )


def _without_break(line: str, following: str) -> str:
    if line.endswith(" \\") and following.strip() == "\\":
        return line[:-1].rstrip()
    return _BREAK.sub(lambda found: found["word"] or "", line)


def readable_lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a text for display, without blank lines, each with the indent of its continuation.

    The markup of bold words and links is removed, and the cells of a table are joined.
    """
    lines = [line.rstrip() for line in without_breaks(text).split("\n")]
    is_table = False
    for line, kind, following in zip(lines, kinds_of(lines), [*lines[1:], ""], strict=True):
        is_rule = _is_rule(line)
        is_table = kind is LineKind.PROSE and _is_row(line) and (is_table or (not is_rule and _is_rule(following)))
        if kind is LineKind.CODE:
            yield (f"    {line}" if line else ""), " " * 6
        elif line and kind is not LineKind.FENCE and not (is_table and is_rule):
            shown = line if kind is LineKind.UNKNOWN else _as_prose(line, is_row=is_table)
            begun = shown.lstrip()
            yield shown, " " * (len(shown) - len(begun) + 2 * bool(_BULLET.match(begun)))


def without_marks(line: str) -> str:
    """Return a line without the markup of bold words and links; code spans are left unchanged."""
    if line.count("`") % 2 or "``" in line:
        return line
    line = _LINK.sub(lambda found: found["words"] or found[0], line)
    return _BOLD.sub(lambda found: found["words"] or found[0], line)


def _as_prose(line: str, *, is_row: bool) -> str:
    if is_row and line.count("`") % 2 == 0:
        cells = _BAR.sub(lambda found: found[1] or "\n", line.strip()[1:-1]).split("\n")
        line = " — ".join(filter(None, (cell.strip() for cell in cells)))
    return without_marks(_HEADING.sub("", line, count=1) if _HEADING.match(line) else line)


def _is_row(line: str) -> bool:
    """Return True for a line that is a row if it is part of a table."""
    line = line.strip()
    return len(line) > 1 and line[0] == line[-1] == "|" and not line.endswith("\\|")


def _is_rule(line: str) -> bool:
    """Return True for the line of dashes below the head of a table."""
    return "-" in line and _is_row(line) and not line.strip("-:| \t")
