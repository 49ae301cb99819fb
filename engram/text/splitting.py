"""Sentences and passages: all of Engram's text splitters, each named after its use. Pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from engram.system.lazy_regex import any_case, lazy_regex

# -- The sentence splitter for search excerpts. It returns spans, so that excerpts are verbatim.

_BREAK = lazy_regex(r"(?<=[.!?:;])\s++(?=[A-Z0-9`*_\"'(\[-])|\n+")


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and stop of each non-blank sentence; colons, semicolons and line breaks also end a sentence."""
    spans, position = [], 0
    for match in [*_BREAK.finditer(text), None]:
        stop = match.start() if match else len(text)
        if text[position:stop].strip():
            spans.append((position, stop))
        position = match.end() if match else stop
    return spans


def is_lead_in(sentence: str) -> bool:
    """Return True if a sentence or line ends with a colon, so that it says nothing without what follows."""
    return sentence.rstrip("* _\n").endswith(_LEADS)


def sentence_texts(text: str) -> list[str]:
    """Return the sentences at ``sentence_spans``, verbatim."""
    return [text[start:stop] for start, stop in sentence_spans(text)]


# -- Split a Markdown message into statements, for extraction: sentences, bullets and table rows with their headings.

#: Maximum length of a message that is split, in characters; the rest is kept only in the stored turn.
MAX_MESSAGE_CHARS = 60_000

#: The kinds of line. The repeats are possessive, because a line may be very long and full of blanks.
_FENCE = lazy_regex(r"\s*+(`{3,}+|~{3,}+)")
_HEADING = lazy_regex(r"\s{0,3}+#{1,6}+\s++")
#: Japanese and Chinese markers are not followed by a space.
_BULLET = lazy_regex(r"(\s*+)(?:(?:[-*+•]|\d{1,3}[.)])\s++|(?:・|\d{1,3}、)\s*+)")
#: The end of a line that introduces what follows.
_LEADS = (":", "：")
_RULE_ROW = lazy_regex(r"[\s|:+-]++$")
_BOLD_LINE = lazy_regex(r"\s*+(?:\d++[.)]\s*+)?\*\*([^*]{2,120}?)[:：.]?\*\*[:：.]?\s*+$")
_MARK = lazy_regex(r"^\[[ xX]\]\s+")
_LINK = lazy_regex(
    r"\[([^\[\]\n]{0,400})\]"
    r"\((?:<[^>\n]{0,2000}>|[^()\s]{0,2000}(?:\([^()\s]{0,200}\)[^()\s]{0,2000}){0,3})(?:\s++\"[^\"]{0,300}\")?\)"
)
_URL = any_case(r"<?\b(?:https?|ftp|file)://[^\s<>)\]]+>?")
#: Parentheses that contain only a URL and would be empty without it.
_URL_ALONE = any_case(rf"\s?\(\s{{0,8}}{_URL.pattern}\s{{0,8}}\)")
_BOLD = lazy_regex(r"\*\*(.{1,1000}?)\*\*|__(\S.{0,200}?\S)__(?=\W|$)")
_ITALIC = lazy_regex(r"(?<![\w*])\*(\S[^*\n]{0,400}?)\*(?![\w*])")
#: A word with a typographic apostrophe or in single quotes; and a word with a plain apostrophe.
_TYPOGRAPHIC = lazy_regex(r"(?<!\w)\w*+’[\w’]*+")
_APOSTROPHE = lazy_regex(r"(?<!\w)\w*+'[\w']*+")
_SPACE = lazy_regex(r"\s+")
_END = lazy_regex(r"(?<=[.!?])[\"')\]*_]*+\s++(?=[\"'(\[*_`]*[A-Z0-9`\"'À-ÖØ-ÞĄĆĘŁŃŚŹŻА-ЯЁ])")
_SHORT = any_case(r"(?:\b(?:e\.g|i\.e|vs|etc|cf|approx|no|fig|dr|mr|ms|st)|\b[A-Z]|^\W*\d{1,2})\.$")


# -- The lists of a Markdown message, so that an excerpt can show one to its end.


class ListEnd(NamedTuple):
    """Where a list ends, and whether items follow that may be part of it."""

    at: int
    may_go_on: bool


def end_of_list(text: str, stop: int) -> ListEnd:
    """Return where the Markdown list ends that contains ``stop`` or is introduced there; ``stop`` if there is none.

    Indented lines and code between its items are part of the list, and so is anything between two items if the
    numbering continues. Bullets with other markers, or after a paragraph, begin another list.
    """
    found = [known for known in _ListReader().run(text) if known.start <= stop <= known.end]
    end = max((known.end for known in found), default=stop)
    return ListEnd(end, any(known.may_go_on for known in found if known.end == end))


@dataclass(slots=True)
class _List:
    """A list, as far as its lines have been read."""

    #: The end of the line that introduces it, or the beginning of its first item if there is none.
    start: int
    end: int
    indent: int
    #: The character before or after the number that marks its items, and the numbers of the first and the last item; 0
    #: for bullets.
    mark: str
    first: int
    number: int
    #: The character that marks the items of a nested list that is not indented.
    inner_mark: str = ""
    #: What follows its last item: a blank line; text or code that is not part of the item; a separate paragraph, a rule
    #: or a bold line; a heading.
    is_apart: bool = False
    is_left: bool = False
    is_behind_text: bool = False
    is_under_heading: bool = False
    #: Items follow that may be part of it.
    may_go_on: bool = False

    @property
    def is_numbered(self) -> bool:
        return self.mark in _BEHIND_NUMBER

    def extend(self, end: int) -> None:
        self.end = end
        self.is_apart = self.is_left = self.is_behind_text = self.is_under_heading = self.may_go_on = False

    def counts_on_to(self, number: int) -> bool:
        """Return True if a number continues the count, with or without a gap: upwards, or downwards if the list counts
        down.
        """
        is_down = self.number < self.first
        return self.is_numbered and (number < self.number if is_down else number > self.number)

    def starts_another_list_at(self, number: int) -> bool:
        """Return True if a number can only be the first one of another list."""
        return self.is_numbered and number <= 1 < self.number and self.first <= 1


#: The marker of a numbered item.
_BEHIND_NUMBER = frozenset(".)、")


def _is_divider(line: str) -> bool:
    """Return True if a line that is not indented is a heading, a bold line or a rule."""
    return any(form.match(f"{line} ") for form in (_HEADING, _BOLD_LINE, _RULE_ROW))


class _ListReader:
    """Reads the lines of a message once and collects its lists; a list in an item of another is part of that one."""

    def __init__(self) -> None:
        self.lists: list[_List] = []
        #: The list being read, preceded by the numbered list that may continue after it.
        self.open_lists: list[_List] = []
        self.fence = ""
        self.is_code_of_item = False
        #: The last line that is not blank, where it ends, and whether blank lines follow it; "" for code.
        self.above = ""
        self.above_end = 0
        self.is_after_blank = False

    def run(self, text: str) -> list[_List]:
        end = 0
        for line in text.splitlines(keepends=True):
            begin, end = end, end + len(line)
            self._line(line.rstrip(), begin)
        return self.lists

    def _line(self, line: str, begin: int) -> None:
        end = begin + len(line)
        fence = _FENCE.match(line)
        if not line and not self.fence:
            self.is_after_blank = True
            for open_list in self.open_lists:
                open_list.is_apart = True
            return
        if self.fence or fence:
            self._code_line(line, end, fence[1] if fence else "")
        elif item := _BULLET.match(f"{line} "):
            self._item(item, begin, end)
        elif self._is_in_item(line):
            self.open_lists[-1].extend(end)
        else:
            self._text_below(line)
        self.above = "" if self.fence or fence else line.rstrip("* _")
        self.above_end = begin + len(self.above)
        self.is_after_blank = False

    def _is_in_item(self, line: str) -> bool:
        """Return True if a line of any kind is indented below the last item, or continues its sentence."""
        if not self.open_lists or self.open_lists[-1].is_left or line[0].isspace():
            return bool(self.open_lists) and not self.open_lists[-1].is_left
        return not self.open_lists[-1].is_apart and not line.rstrip("* _").endswith(_LEADS) and not _is_divider(line)

    def _text_below(self, line: str) -> None:
        self._leave()
        is_divider, is_heading = _is_divider(line), _HEADING.match(f"{line} ") is not None
        if is_divider and not _RULE_ROW.match(line):
            # Bullets below it are another list, but a numbered list may continue.
            self.open_lists = [open_list for open_list in self.open_lists if open_list.is_numbered]
        for open_list in self.open_lists:
            open_list.is_behind_text |= open_list.is_apart or is_divider
            open_list.is_under_heading |= is_heading

    def _code_line(self, line: str, end: int, fence: str) -> None:
        if not self.fence:
            self.fence = fence[:3]
            last = self.open_lists[-1] if self.open_lists else None
            is_next = last is not None and (line[0].isspace() or self.above.endswith(_LEADS) or not last.is_apart)
            self.is_code_of_item = last is not None and not last.is_left and is_next
        elif fence.startswith(self.fence):
            self.fence = ""
        if self.is_code_of_item:
            self.open_lists[-1].extend(end)
        else:
            self._leave()

    def _leave(self) -> None:
        for open_list in self.open_lists:
            open_list.is_left = True

    def _item(self, item: re.Match[str], begin: int, end: int) -> None:
        indent = len(item[1])
        marker = item[0].strip()
        number, mark = int(marker[:-1] or 0), marker[-1]
        while self.open_lists:
            parent = self.open_lists[-1]
            is_part = self._is_part(parent, indent, mark, number)
            if is_part:
                parent.inner_mark = mark if indent <= parent.indent and mark != parent.mark else parent.inner_mark
                parent.number = number if indent <= parent.indent and mark == parent.mark else parent.number
                parent.extend(end)
                return
            parent.may_go_on |= is_part is None
            if parent.is_numbered and mark not in _BEHIND_NUMBER:
                break
            self.open_lists.pop()
        self._leave()
        start = self.above_end if self.above.endswith(_LEADS) else begin
        self.open_lists.append(_List(start, end, indent, mark, number, number))
        self.lists.append(self.open_lists[-1])

    def _is_part(self, parent: _List, indent: int, mark: str, number: int) -> bool | None:
        """Return True if an item belongs to a list, or to a list nested in its last item; None if that is unclear."""
        is_introduced = self.above.endswith(_LEADS)
        is_sibling = indent <= parent.indent and mark == parent.mark
        if is_sibling and parent.is_left and parent.counts_on_to(number):
            return None if parent.is_under_heading else True
        if is_sibling or indent > parent.indent or mark == parent.inner_mark:
            if not parent.is_left:
                return True
            if is_introduced or parent.is_under_heading:
                return False
            if not parent.is_behind_text:
                return True
            # A sentence directly above its items introduces them.
            is_own = not self.is_after_blank and any(letter.isalnum() for letter in self.above)
            return False if is_own or (is_sibling and parent.starts_another_list_at(number)) else None
        if parent.is_left or not parent.is_numbered or mark in _BEHIND_NUMBER:
            return not parent.is_left and is_introduced
        # Bullets below a number.
        return True if is_introduced or not self.is_after_blank else None


class Block(StrEnum):
    """The kind of Markdown block that a statement comes from."""

    PROSE = "prose"
    BULLET = "bullet"
    ROW = "row"


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence, bullet or table row, as one line of plain text."""

    #: Without markup and URLs, but with backticks.
    text: str
    block: Block
    #: Nearest heading or bold line above it; "" if there is none.
    topic: str
    #: The line that ends with a colon and introduces its list; "" outside lists.
    lead: str
    #: Number of its paragraph or list, which statements that belong together share.
    group: int
    #: Line of the message on which it begins, from 0.
    line: int = 0


def plain(text: str) -> str:
    """Return a text on one line without markup, link targets and URLs; backticks and what they enclose are kept.

    Typographic apostrophes become plain ones, as the rules' patterns expect; ``as_said`` restores them in text that is
    kept.
    """
    text = text.replace("’", "'")
    text = _LINK.sub(lambda link: link[0] if text.count("`", 0, link.start()) % 2 else link[1], text)
    pieces = text.split("`")
    for index in range(0, len(pieces), 2):
        piece = _URL.sub("", _URL_ALONE.sub("", pieces[index]))
        piece = _BOLD.sub(lambda match: match[1] or match[2], piece)
        pieces[index] = _ITALIC.sub(r"\1", piece).replace("**", "")
    return _SPACE.sub(" ", "`".join(pieces)).strip()


def as_said(text: str, *sources: str) -> str:
    """Return a text made from statements, with the typographic apostrophes that its words have in the sources.

    If the sources differ, the first one that contains the word decides.
    """
    said: dict[str, str] = {}
    for source in sources:
        for word in _TYPOGRAPHIC.findall(source):
            said.setdefault(word.replace("’", "'"), word)
    return _APOSTROPHE.sub(lambda match: said.get(match[0], match[0]), text) if said else text


def sentences(text: str) -> list[str]:
    """Return the sentences of a paragraph. It is never split inside backticks or after an abbreviation."""
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


def _without_hashes(heading: str) -> str:
    return heading.rstrip().rstrip("#").rstrip()


class _Splitter:
    """Reads the lines of a message once and collects its statements."""

    def __init__(self) -> None:
        self.statements: list[Statement] = []
        self.paragraph: list[str] = []
        self.bullet: list[str] | None = None
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
        stripped = line.strip()
        if heading or bold:
            self._close()
            named = _without_hashes(line[heading.end() :]) if heading else bold[1] if bold else ""
            self.topic = plain(named).rstrip(":：")
            self.lead = ""
            self.group += 1
        elif len(stripped) > 2 and stripped[0] == stripped[-1] == "|":
            self._row(stripped[1:-1])
        elif bullet:
            self._close()
            self.first_line = self.line
            self.bullet = [line[bullet.end() :]]
        elif self.bullet is not None and line[:1].isspace():
            self.bullet.append(line.strip())
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
            text, self.bullet = plain(_MARK.sub("", " ".join(self.bullet))), None
            self._add(text, Block.BULLET)
        if self.paragraph:
            text = plain(" ".join(self.paragraph))
            self.paragraph = []
            self.group += 1
            self.lead = ""
            for sentence in sentences(text):
                self._add(sentence, Block.PROSE)
            if text.endswith(_LEADS):
                last = sentences(text)[-1]
                self.lead = last.rstrip(":：")

    def _add(self, text: str, block: Block) -> None:
        if text and any(letter.isalnum() for letter in text):
            lead = self.lead if block is not Block.PROSE else ""
            self.statements.append(
                Statement(
                    text=text,
                    block=block,
                    topic=self.topic,
                    lead=lead,
                    group=self.group,
                    line=self.first_line,
                )
            )


# -- Tell sentences that are clear on their own and of lasting use from fragments and reports of the moment.

#: Minimum number of words in a sentence that is clear on its own.
MIN_WORDS = 6
#: Minimum number of semicolons that make a sentence a list of fragments.
MIN_LIST_SEMICOLONS = 2

#: Words at the start of a sentence that refer to something said before, begin a list item, or reply to someone.
_REFERS_BACK = any_case(
    r"(?:this|that|these|those|it|its|it['’]s|that['’]s|they|their|he|she|which|whose|such|and|but|so|then|thus|therefore|"
    r"also|because|since|however|instead|otherwise|still|with(?:out)? (?:this|that|it)|"
    r"all (?:three|four|of (?:them|these|those))|the (?:rest|others?|former|latter|existing|remaining)|only the|needs?|"
    r"committed|pushed|two|three|both|\d+ (?:files|fixes|changes|issues|tests)|"
    r"the (?:first|second|third|last|former|latter|other|same|rest|bug|issue|problem|fix|solution|rule|reason|test|"
    r"error|changes?|following|above)(?: (?:is|was|are|were|here|needed|made)\b|\s*[:—-])|"
    r"here|there (?:is|are|was|were)|yes|yeah|yep|no,|nope|ok(?:ay)?|sure|right|great|good|perfect|"
    r"now|next|first|second|finally|done|part|step|task|thread|option|phase|item|point|old|new|before|after|"
    r"current state|summary|results?|note|files?|modified|updated|added|changes?|key|missing|#?\d+[.):]|"
    r"\d+ (?:is|was|sounds))\b"
)
#: List items in the forms "Heading — text", "Heading: text", "A. text" and "`path`: what was done there".
_LABEL = lazy_regex(r"`[^`]+`(?:\s*\([^)]*\))?\s*+(?:[:—–]|-\s)|(?:[^\s.!?`,]+ ){0,5}[^\s.!?`,]+(?::\s| — )|\w\.\s")
#: A question with its answer, or words with their speaker.
_DIALOG = any_case(r"\?\s*+→|^asked “|^\s*+>|^(?:user|assistant):")
#: Conversation or thinking aloud, which means nothing to other readers.
_TALK = any_case(
    r"\b(?:i|i['’]m|i['’]ve|i['’]d|i['’]ll|we|we['’]re|we['’]ve|me|my|our|us|let['’]s)\b|"
    r"^(?:you|you['’]re|your|can|could|would|should|what|why|how|"
    r"do you|are you|is it|shall|looks? like|seems|the user approved the plan)\b"
)
#: A report on what was just done or is in progress.
_OF_THE_MOMENT = any_case(
    r"\ball (?:\d+|three|four|five|of the) ?(?:\w+ )?(?:findings|tests?|threads|comments|checks|issues|tasks|points)\b"
    r"|\b(?:tests?|checks|suite|build|lint(?:er)?|ci|pipeline)\b[^.;]{0,40}\b"
    r"(?:pass(?:es|ed|ing)?|green|clean|succeed\w*)\b"
    r"|\b\d+ (?:tests?|failures?|errors?|passed|failed)\b|\b(?:addressed|replied to|resolved), |\breplied to\b"
    r"|\b(?:is|are|was|were) (?:now )?(?:done|completed?|finished|addressed|updated and)\b"
    r"|\b(?:(?:is|are) now|was|were|(?:has|have) been) (?:committed|pushed|merged)\b"
    r"|\bready (?:to|for) (?:commit|review|merge|push|test)\w*\b|\bin progress\b"
    r"|\bbackground (?:task|process|agent|command)\b|\b(?:previous|this|last|current) session\b"
    r"|\bright now\b|\bcurrently\b|\bjust (?:now|finished|added|pushed)\b|\bremaining tasks?\b|\bnext steps?\b"
    r"|\b(?:is|are|was|were|keeps?) (?:still )?failing\b"
    r"|\b(?:not|never|un)[ -]?(?:been )?committed\b|\bno commits?\b|\bdid(?:n['’]t| not) commit\b|\bnot pushed\b"
    r"|\bi['’]ll\b|\blet me\b|\bwant me to\b|\bas requested\b|\bper your\b"
    r"|\b(?:up to date|working tree clean|no longer relevant|not relevant anymore)\b|✅|☑|✔"
)


def stands_alone(sentence: str) -> bool:
    """Return True for a complete sentence that a reader understands without its context."""
    text = sentence.strip()
    # The words of a script without spaces can't be counted.
    if (text.isascii() and len(text.split()) < MIN_WORDS) or text.endswith(("…", ":", ",", ";", "—", "-", "?")):
        return False
    if (
        "…" in text
        or text.count("`") % 2
        or text.count("(") != text.count(")")
        or text.count(";") >= MIN_LIST_SEMICOLONS
    ):
        return False
    if text[0].islower() or text[0] in "→-•*|>#.,;:)…":
        return False
    return not (_REFERS_BACK.match(text) or _LABEL.match(text) or _DIALOG.search(text) or _TALK.search(text))


def is_of_the_moment(sentence: str) -> bool:
    """Return True for a report on what was just done, which is useless to a later session."""
    return bool(_OF_THE_MOMENT.search(sentence))


def whole_sentences(summary: str, limit: int) -> str:
    """Return the first sentences of a summary that fit into ``limit`` characters; "" if the first one doesn't."""
    kept = ""
    for sentence in sentences(summary):
        longer = f"{kept} {sentence}".strip()
        if len(longer) > limit or sentence.endswith("…"):
            break
        kept = longer
    return kept


def standing_part(summary: str, limit: int) -> str:
    """Return the leading sentences of a summary that are clear on their own and fit; "" if the first one isn't.

    Args:
        limit: maximum length, in characters. A sentence is never cut off.
    """
    kept = ""
    for sentence in sentences(summary):
        longer = f"{kept} {sentence}".strip()
        if len(longer) > limit or is_of_the_moment(sentence) or not stands_alone(sentence):
            break
        kept = longer
    return kept


# -- Split text into passages: runs of sentences and lines that are embedded and searched as a unit.

#: Maximum number of words in a passage, except for a single long sentence.
MAX_PASSAGE_WORDS = 60
#: Maximum length of a run of text without a break, in characters; a longer run is cut.
MAX_PIECE_CHARS = 900

#: White space between sentences, or line ends. Every match begins with white space, so searching is fast.
_PASSAGE_BREAK = lazy_regex(r"\s(?:(?<=[.!?:;]\s)\s*+(?=[A-Z0-9`*_\"'(\[])|(?<=\n)\n*)")


def split_passages(text: str) -> list[tuple[int, int]]:
    """Return ``(start, stop)`` of each passage, in characters, in order, without surrounding white space.

    Passages end at the end of a line or sentence. A new paragraph or heading starts a new passage once the current one
    has half of ``MAX_PASSAGE_WORDS``.
    """
    spans: list[tuple[int, int]] = []
    start = stop = words = 0
    for piece_start, piece_stop, is_paragraph in _pieces(text):
        size = len(text[piece_start:piece_stop].split())
        if words and (words + size > MAX_PASSAGE_WORDS or (is_paragraph and words * 2 >= MAX_PASSAGE_WORDS)):
            spans.append((start, stop))
            words = 0
        if not words:
            start = piece_start
        stop, words = piece_stop, words + size
    if words:
        spans.append((start, stop))
    return spans


def _pieces(text: str) -> list[tuple[int, int, bool]]:
    """Return the sentences and lines as ``(start, stop, begins a paragraph)``."""
    pieces = []
    position, is_paragraph = 0, True
    for match in [*_PASSAGE_BREAK.finditer(text), None]:
        end = match.start() if match else len(text)
        for cut in range(position, end, MAX_PIECE_CHARS):
            piece = text[cut : min(cut + MAX_PIECE_CHARS, end)]
            if right := len(piece.rstrip()):
                pieces.append((cut + len(piece) - len(piece.lstrip()), cut + right, is_paragraph))
                is_paragraph = False
        if match:
            position = match.end()
            is_paragraph = position - end > 1 and match.group().count("\n") > 1
    return pieces
