"""Split a Markdown message into statements, for extraction: sentences, bullets and table rows with their headings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

#: Maximum length of a message that is split, in characters; the rest is only in the stored turn.
MAX_MESSAGE_CHARS = 60_000

_FENCE = re.compile(r"^\s*(```+|~~~+)")
_HEADING = re.compile(r"^\s{0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
_BULLET = re.compile(r"^(\s*)(?:[-*+•]|\d{1,3}[.)])\s+(.*)$")
_ROW = re.compile(r"^\s*\|(.+)\|\s*$")
_RULE_ROW = re.compile(r"^[\s|:+-]+$")
_BOLD_LINE = re.compile(r"^\s*(?:\d+[.)]\s*)?\*\*([^*]{2,120}?)[:.]?\*\*[:.]?\s*$")
_MARK = re.compile(r"^\[[ xX]\]\s+")
_LINK = re.compile(
    r"\[([^\[\]\n]{0,400})\]"
    r"\((?:<[^>\n]{0,2000}>|[^()\s]{0,2000}(?:\([^()\s]{0,200}\)[^()\s]{0,2000}){0,3})(?:\s+\"[^\"]{0,300}\")?\)"
)
_URL = re.compile(r"<?\b(?:https?|ftp|file)://[^\s<>)\]]+>?", re.IGNORECASE)
#: A web address alone in parentheses: without it they would be empty.
_URL_ALONE = re.compile(rf"\s?\(\s{{0,8}}{_URL.pattern}\s{{0,8}}\)", re.IGNORECASE)
_BOLD = re.compile(r"\*\*(.{1,1000}?)\*\*|__(\S.{0,200}?\S)__(?=\W|$)")
_ITALIC = re.compile(r"(?<![\w*])\*(\S[^*\n]{0,400}?)\*(?![\w*])")
#: A word with a typographic apostrophe, or in single quotes; and one with a plain one.
_TYPOGRAPHIC = re.compile(r"\w*’[\w’]*")
_APOSTROPHE = re.compile(r"\w*'[\w']*")
_SPACE = re.compile(r"\s+")
_END = re.compile(r"(?<=[.!?])[\"')\]*_]*\s+(?=[\"'(\[*_`]*[A-Z0-9`\"'])")
_SHORT = re.compile(r"(?:\b(?:e\.g|i\.e|vs|etc|cf|approx|no|fig|dr|mr|ms|st)|\b[A-Z]|^\W*\d{1,2})\.$", re.IGNORECASE)


class Block(StrEnum):
    """The kind of Markdown block that a statement is from."""

    PROSE = "prose"
    BULLET = "bullet"
    ROW = "row"


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence, bullet or table row, as one line of plain text."""

    #: Without markup and web addresses, with backticks.
    text: str
    block: Block
    #: Nearest heading or bold line above; "" if there is none.
    topic: str
    #: The line ending with a colon that introduces its list; "" outside lists.
    lead: str
    #: Number of its paragraph or list; statements that belong together share it.
    group: int
    #: Nesting depth of a bullet, from 0.
    depth: int = 0
    #: Line of the message where it begins, from 0.
    line: int = 0


def plain(text: str) -> str:
    """Return a text as one line without markup, link targets and web addresses; backticks stay.

    A typographic apostrophe is a plain one, for the rules' patterns; ``as_said`` puts it back in what is kept.
    """
    text = text.replace("’", "'")
    text = _LINK.sub(lambda link: link[0] if text.count("`", 0, link.start()) % 2 else link[1], text)
    text = _URL.sub("", _URL_ALONE.sub("", text))
    pieces = text.split("`")
    for index in range(0, len(pieces), 2):
        piece = _BOLD.sub(lambda match: match[1] or match[2], pieces[index])
        pieces[index] = _ITALIC.sub(r"\1", piece).replace("**", "")
    return _SPACE.sub(" ", "`".join(pieces)).strip()


def as_said(text: str, *sources: str) -> str:
    """Return a text made of statements with the typographic apostrophes that its words have in the sources.

    The first source that has such a word decides.
    """
    said: dict[str, str] = {}
    for source in sources:
        for word in _TYPOGRAPHIC.findall(source):
            said.setdefault(word.replace("’", "'"), word)
    return _APOSTROPHE.sub(lambda match: said.get(match[0], match[0]), text) if said else text


def sentences(text: str) -> list[str]:
    """Return the sentences of a paragraph; it is never cut inside backticks or after an abbreviation."""
    parts: list[str] = []
    start = seen = ticks = 0
    for match in _END.finditer(text):
        ticks += text.count("`", seen, match.start())
        seen = match.start()
        # Only the tail is searched, so that a text full of abbreviations takes linear time.
        if ticks % 2 or _SHORT.search(text[max(start, seen - 14) : seen]):
            continue
        parts.append(text[start : match.end()].strip())
        start = match.end()
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def split(message: str) -> list[Statement]:
    """Return the statements of a Markdown message in order, without code blocks."""
    return _Splitter().run(message[:MAX_MESSAGE_CHARS])


class _Splitter:
    """Reads the lines of a message once and collects its statements."""

    def __init__(self) -> None:
        self.statements: list[Statement] = []
        self.paragraph: list[str] = []
        self.bullet: tuple[int, list[str]] | None = None
        self.header: list[str] = []
        self.topic = ""
        self.lead = ""
        self.group = 0
        self.fence = ""
        self.line = 0
        self.first_line = 0

    def run(self, message: str) -> list[Statement]:
        for self.line, line in enumerate(message.splitlines()):
            self._line(line)
        self._close()
        return self.statements

    def _line(self, line: str) -> None:
        fence = _FENCE.match(line)
        if self.fence:
            if fence and fence[1].startswith(self.fence):
                self.fence = ""
            return
        if fence:
            self._close()
            self.fence = fence[1][:3]
        elif not line.strip():
            self._close()
            self.header = []
        else:
            self._text_line(line)

    def _text_line(self, line: str) -> None:
        heading, bold, bullet = _HEADING.match(line), _BOLD_LINE.match(line), _BULLET.match(line)
        cells = _ROW.match(line)
        if heading or bold:
            self._close()
            self.topic = plain(heading[2] if heading else bold[1] if bold else "").rstrip(":")
            self.lead = ""
            self.group += 1
        elif cells:
            self._row(cells[1])
        elif bullet:
            self._close()
            self.first_line = self.line
            self.bullet = (len(bullet[1]), [bullet[2]])
        elif self.bullet is not None and line[:1].isspace():
            self.bullet[1].append(line.strip())
        else:
            if self.bullet is not None:
                self._close()
            if not self.paragraph:
                self.first_line = self.line
            self.paragraph.append(line.strip().lstrip("> "))

    def _row(self, cells_text: str) -> None:
        self._close()
        if _RULE_ROW.match(cells_text):
            return
        cells = [plain(cell) for cell in cells_text.split("|")]
        if not self.header:
            self.header = cells
            self.group += 1
            return
        text = " — ".join(cell for cell in cells if cell)
        self.first_line = self.line
        self._add(text, Block.ROW)

    def _close(self) -> None:
        if self.bullet is not None:
            indent, lines = self.bullet
            self.bullet = None
            text = plain(_MARK.sub("", " ".join(lines)))
            self._add(text, Block.BULLET, depth=indent // 2)
        if self.paragraph:
            text = plain(" ".join(self.paragraph))
            self.paragraph = []
            self.group += 1
            self.lead = ""
            for sentence in sentences(text):
                self._add(sentence, Block.PROSE)
            if text.endswith(":"):
                last = sentences(text)[-1]
                self.lead = last.rstrip(":")

    def _add(self, text: str, block: Block, depth: int = 0) -> None:
        if text and any(letter.isalnum() for letter in text):
            lead = self.lead if block is not Block.PROSE else ""
            self.statements.append(
                Statement(
                    text=text,
                    block=block,
                    topic=self.topic,
                    lead=lead,
                    group=self.group,
                    depth=depth,
                    line=self.first_line,
                )
            )
