"""Separate what the user typed in a prompt from what was pasted, quoted or relayed.

When in doubt, a line counts as not typed, because the user can repeat a rule that was missed, but a rule planted by
someone else would be obeyed forever.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from engram.system.cached import cached_by_text
from engram.system.lazy_regex import lazy_regex
from engram.trust.pasted_letters import letter_spans
from engram.trust.pasted_shapes import (
    asks_about,
    begins_in_first_person,
    begins_sentence,
    end_of_request,
    introduces,
    is_correspondence,
    is_markup,
    shape_end,
)
from engram.trust.relayed import relayed_in

#: A line with more characters than this counts as pasted.
MAX_TYPED_LINE_CHARS = 1_200
#: In a prompt with more characters than this, only the first and last paragraphs can count as typed.
MAX_TYPED_PROMPT_CHARS = 6_000
#: Minimum number of consecutive indented lines that count as pasted.
_INDENTED_LINES = 3

_FENCE = lazy_regex(r"\s{0,12}(?:[-*+]\s+|\d+[.)]\s+)?(`{3,}|~{3,}|\"{3}|'{3})")
#: Fences and tags, even in the middle of a line.
_ANY_FENCE = lazy_regex(r"(?<![`\w])`{3,}(?!`)|(?<=[^`]|\w)`{3,}(?=\s|$)")
_ANY_TAG = lazy_regex(r"<(/?)([A-Za-z][\w:.-]{0,60})(?:\s[^<>]{0,400})?>")
_TAG = lazy_regex(r"\s{0,40}<(/?)([A-Za-z!?][\w:.-]{0,60})(?=[\s>/])?[^<>]{0,400}>")
_ROLE = lazy_regex(
    r"(?i)[ \t]{0,40}(?:[#>*_\[\-=]{1,6}[ \t]{0,4})?(?:system|assistant|user|human|developer|claude|copilot|chatgpt|"
    r"gemini|ai|tool|bot|model|operator|admin(?:istrator)?|me|you|from|subject|to|date|author|commit|re|fwd|sent|"
    r"reply-to)\b(?:\s*(?:message|prompt|note|reminder|override|notice|result|output|instructions?))?\s*[\]*_]{0,3}\s*:"
)
_DIFF_HEAD = lazy_regex(r"(?:diff --git |@@ -|--- [\w/.\"]|\+\+\+ [\w/.\"]|index [0-9a-f]{5,}\.\.|Index: |={20,})")
_DIFF_BODY = lazy_regex(r"(?:[+\- \\@]|$)")
_LOG = lazy_regex(
    r"(?i)\s*(?:\[?\d{4}[-/]\d\d[-/]\d\d|\[?\d{1,2}:\d\d:\d\d|\[\s*(?:info|warn(?:ing)?|error|debug|fatal|trace|"
    r"notice|\d+[.:/\]])|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]* {1,2}\d{1,2} \d\d:|(?-i:(?:INFO|"
    r"DEBUG|TRACE)\s(?!(?:(?:log\w*|levels?|messages?|lines?|builds?|mode|output) )?(?:must|should|shall|may|can|is|"
    r"are|never|always|stays?|go(?:es)?)\b)|(?:WARN(?:ING)?|ERROR|FATAL|FAILED|PASSED)(?:\s{2,}| \S+[/:.])\S|(?:WARN|"
    r"FATAL)\s(?:always|never|do not|don['’]t)\b)|(?:info|"
    r"warn|warning|error|debug|fatal|trace|notice|panic|exception|failed|fail|err!?)\b\s*[:\[(|]|"
    r"(?:uncaught (?:\(in promise\) )?)?[\w.$]*(?:error|exception|warning)\b\s*:|\d+ (?:passed|"
    r"failed)(?:, \d+ \w+)* in \d[\d.]* ?s|npm (?:err|warn)|traceback \(most|caused by|exception in thread\b|"
    r"unhandled (?:exception|(?:promise )?rejection)\b\.?[ :]|(?:php )?(?:fatal|parse) error:|commit [0-9a-f]{12,40}\b|"
    r"(?-i:(?:Normal|Warning)\s{2,}\S)|\+(?:#|//) ?\S|@@ [-+]\d|file \"[^\"]*\", line \d|"
    r"at [\w$.<>\[\] /]+\s?\(|at (?:async )?\S+:\d+|goroutine \d|\S+\.(?:py|js|mjs|ts|tsx|jsx|go|rs|java|c|cc|cpp|h|"
    r"rb|php|cs|swift|kt|ex|exs|vue):\d+|\S+\.go:\d|e\s{3}|={3,}|-{4,}|_{4,}|\*{4,}|[✓✗✘✔✖❌✅☐☑☒●⎿⏺✻✽✶✢✦❯›│┌└├╭╰|])"
)
_SHELL = lazy_regex(r"\s*(?:[\w.@~:/\\-]{0,60}\s?(?:[$%#❯➜λ]|PS [A-Z]:\\\S*>)\s+\S|>>> |\.\.\. )")
_CODE = lazy_regex(
    r"\s*(?:import |from \S+ import |def |class |function |const |let |var |return\b|package |func |fn |pub |use "
    r"\w+::|#include|public |private |protected |static |async |export (?:default|const|function)|interface |type "
    r"\w+ =|enum |struct |impl |@\w+|if ?\(|for ?\(|while ?\(|else\b|elif |try:|except|}|{|\[|\"[\w-]+\"\s*:|"
    r"'[\w-]+'\s*:|[\w-]+:\s*$|- name:|//|/\*|\*/|<!--|\w+\s?=\s?\S|[\w.]+\(.*\)[;,]?\s*$)|.*(?:[;{]|=>|\);|\},|"
    r"\],)\s*$"
)
_QUOTE = lazy_regex(r"\s{0,8}(?:>|\|)")
#: A comment in code, even without code next to it.
_COMMENT = lazy_regex(r"\s*(?:/\*|\*/|//\s|<!--|--\s|;;?\s|%\s)")
#: A line added or removed by a diff that lacks its file headers.
_CHANGED = lazy_regex(r"([+-])(?:\s|$)")
#: A line that begins or ends text from elsewhere: "--- Context from: notes.md ---", "=== END OF FILE ===".
_FRAME = lazy_regex(r"\s{0,8}([-=*~])\1{2,} .{1,200} \1{3,}\s*$")
_FRAME_END = lazy_regex(r"(?i)\s{0,8}([-=*~])\1{2,} end\b.{0,200} \1{3,}\s*$")
#: A line with which Claude's apps mark text that a page or a comment sends on the user's behalf.
_SENT = lazy_regex(r"(?i)\s*\[(?:[^\]\n]{0,80}\bsent to claude\b|review comment context\b)[^\n]*$")
#: A line of values between separators, and the minimum number of such lines that form a table.
_VALUES = lazy_regex(r"\s*[^\s,;\t][^,;\t\n]*(?:[,;\t][^\s,;\t][^,;\t\n]*)+\s*$")
_TABLE_ROWS = 3
#: The space between two columns; a line with two of them is a row of a table that a program printed.
_GAP = lazy_regex(r"(?<=[^\s.!?:;,]) {2,}(?=\S)")
_HEADING = lazy_regex(r"#{1,6} \S|[=-]{3,}\s*$|\s{0,6}(?:[-*+]\s+|\d+[.)]\s+)?\*\*[^*\n]{2,80}\*\*")
_SENTENCE_END = lazy_regex(r"(?<=[.!?])\s+(?=[A-Z\"'“(])")
#: The end of a statement or question, a beginning that is not a list's, and what is behind a word and a full stop.
_STATED = lazy_regex(r"[.!…:][\"'”»)]*\s*$")
_ASKED = lazy_regex(r"[?,;]\s*$")
_SENTENCE_BEGINS = lazy_regex(r"\W{0,3}[^\W\d_](?:[^\n]*\s){2}")
#: Words in a request that refer to a text that follows, or to one before.
_POINTS_ON = lazy_regex(
    r"(?i)\b(?:this|these|below|following|dies\w*|folgende\w*|es[ot][aeo]s?|ce(?:ci|la|tte)?|ça|questo|questa|isto|dit|"
    r"deze|think|thoughts)\b|\?"
)
_POINTS_BACK = lazy_regex(rf"{_POINTS_ON.pattern}|\b(?:it|that|those)\b")
_APOSTROPHES = str.maketrans("", "", "'’")
_BEHIND_STOP = lazy_regex(r"(?<=[^\W\d_]{3}[.!?])\s+")
#: A quotation on one line; most kinds extend to the end of the line if they aren't closed.
_QUOTATION = lazy_regex(
    r"\"[^\"\n]*(?:\"|$)|„[^“”\n]*(?:[“”]|$)|“[^”\n]*(?:”|$)|«[^»\n]*(?:»|$)|»[^«»\n]*«|[「『][^」』\n]*(?:[」』]|$)|"
    r"‚[^‘’\n]*[‘’](?!\w)|‘[^’\n]*(?:’\w[^’\n]*)*’(?!\w)|(?<!\w)'[^'\n]{24,2000}'(?!\w)"
)
#: A quotation with fewer characters counts as a name or a word; in Chinese and Japanese, characters carry more meaning.
_LONG_QUOTATION = 16
_LONG_CORNERED = 8
_OPEN_QUOTE = lazy_regex(r"^[^\"]*(?:^|[\s:(])\"(?=\w)[^\"]*$")
#: Opening mark of a quotation that may span several lines → its closing marks.
_CLOSING = {"„": "“”", "“": "”", "«": "»", "「": "」", "『": "』"}
_CLOSED = lazy_regex(r"„[^“”]*[“”]|“[^”]*”|«[^»]*»|»[^«]*«|「[^」]*」|『[^』]*』")
_OPENING = lazy_regex(r"[„“«「『]")
#: If a quotation would span more lines than this, its quotation mark counts as unpaired.
_QUOTED_LINES = 60
_BLOB = lazy_regex(r"[A-Za-z0-9+/=_-]{120,}")
#: What ``typed_text`` puts in place of the relayed rest of a clause; no sentence ends there, and nobody types it.
LEFT_OUT = " ⋯"
_CLAUSE_END = lazy_regex(
    r"(?i)(?:^|[^\w\s`'\"’*]|\b(?:and|but|or|because|since|as|so|und|oder|aber|weil|denn|et|ou|mais|car|y|o|pero|"
    r"porque|e|ma|perché|mas|en|of|maar|want|i|ale|bo|и|но))\s*$"
)


def split_typed(text: str) -> list[tuple[str, bool]]:
    """Split a prompt into segments, each with a flag that is True if the user typed it.

    Joined, the segments are equal to the prompt.

    These count as not typed: code fences, quoted lines, tags and their content (if a tag is never closed, all that
    follows), diffs, logs, stack traces, shell sessions, code, indented blocks, e-mail and chat headers, tickets,
    documents with headings, very long lines, sentences that relay someone else's words ("the README says …"), long
    quotations, and the text after a line such as "here is the output:", up to a blank line after which the user writes
    in the first person. Relaying, lead-ins and quotation marks are recognised in English, German, French, Spanish,
    Italian, Portuguese, Dutch, Polish, Russian, Japanese and Chinese.
    """
    lines = _pieces(text)
    typed = _judge_lines(lines)
    if len(text) > MAX_TYPED_PROMPT_CHARS:
        _keep_outer_paragraphs(lines, typed)
    segments: list[tuple[str, bool]] = []
    for line, is_typed in zip(lines, typed, strict=True):
        for part, part_typed in _inside(line) if is_typed else ((line, False),):
            if segments and segments[-1][1] == part_typed:
                segments[-1] = (segments[-1][0] + part, part_typed)
            elif part:
                segments.append((part, part_typed))
    return segments


@cached_by_text
def typed_text(text: str) -> str:
    """Return the parts of the prompt that the user typed, each on lines of its own.

    Parts between which whole lines are left out are paragraphs of their own, so that no sentence runs across them. A
    sentence whose relayed rest is cut off in the middle of a clause ends with ``LEFT_OUT``.
    """
    typed, gap, before = "", "\n", ""
    for part, is_typed in split_typed(text):
        if not is_typed:
            if typed and not _is_clause(before) and not _QUOTATION.match(part.lstrip()):
                typed += LEFT_OUT
            gap = "\n\n" if "\n" in part else gap
        elif part.strip():
            typed, gap = f"{typed}{gap}{part.strip()}" if typed else part.strip(), "\n"
        before = part
    return typed


def unmarked(typed: str) -> str:
    """Return a typed text without ``LEFT_OUT``, which is for judging rules: it is not kept, shown or compared."""
    return typed.replace(LEFT_OUT, "")


def _is_clause(part: str) -> bool:
    """Return True if a text ends where a clause ends: at a line's end, a punctuation mark or a conjunction."""
    return part.endswith("\n") or _CLAUSE_END.search(part) is not None


def _pieces(text: str) -> list[str]:
    """Split text into lines; a fence or a pair of tags in the middle of a line forms a separate piece.

    If there are several lines, the text after "what does this say:" on the same line is a separate piece, too.
    """
    tags = [tag for tag in _ANY_TAG.finditer(text) if not tag[0].endswith("/>")] if "</" in text else []
    paired = {tag[2] for tag in tags if tag[1]} & {tag[2] for tag in tags if not tag[1]}
    pieces = []
    for line in text.splitlines(keepends=True):
        cuts = {0, len(line)}
        if ":" in line and line.strip() != text.strip():
            cuts.add(end_of_request(line))
        is_inside = False
        for fence in _ANY_FENCE.finditer(line) if "```" in line else ():
            if line[: fence.start()].strip():
                cuts.add(fence.end() if is_inside else fence.start())
            is_inside = not is_inside
        tags = list(_ANY_TAG.finditer(line)) if paired else []
        quoted = [quote.span() for quote in _QUOTATION.finditer(line)] if tags else []
        for tag in tags:
            if tag[2] in paired and not tag[0].endswith("/>") and not _is_within(tag.start(), quoted):
                cuts.add(tag.end() if tag[1] else tag.start())
        at = sorted(cuts)
        pieces += [line[start:end] for start, end in pairwise(at)]
    return pieces


def _is_within(place: int, spans: list[tuple[int, int]]) -> bool:
    """Return True if a position is inside one of the spans, after its start; they are sorted and don't overlap."""
    before = bisect_right(spans, (place, 0)) - 1
    return before >= 0 and place < spans[before][1]


def _tag_ends(lines: list[str]) -> dict[int, int]:
    """Return the line of each tag → the line after its content.

    The content ends at the last closing tag before the tag is opened again. Nested tags of the same name are skipped.
    """
    opened: dict[str, tuple[int, int]] = {}
    ends: dict[int, int] = {}
    for number, line in enumerate(lines):
        for tag in _ANY_TAG.finditer(line) if "<" in line else ():
            if tag[0].endswith("/>"):
                continue
            start, depth = opened.get(tag[2], (number, 0))
            if not tag[1]:
                opened[tag[2]] = (number if depth == 0 else start, depth + 1)
            elif tag[2] in opened:
                opened[tag[2]] = (start, max(0, depth - 1))
                if depth <= 1:
                    ends[start] = max(ends.get(start, 0), number + 1)
    return ends


class _Ends(NamedTuple):
    """Where the parts of a prompt end: line → end."""

    tags: dict[int, int]
    changes: dict[int, int]


def _judge_lines(lines: list[str]) -> list[bool]:
    typed = [True] * len(lines)
    ends = _Ends(_tag_ends(lines), _changed_ends(lines))
    headings = [n for n, line in enumerate(lines) if _HEADING.match(line)]
    document = next(
        (n for n in headings if len(headings) > 1 or len(lines) - n > (1 if lines[n][:2] == "##" else 8)), len(lines)
    )
    at = 0
    while at < len(lines):
        stop = document if at < document else len(lines)
        end = len(lines) if at >= document else _paste_end(lines, at, ends)
        if end > at:
            end = max(end, at + 1)
            typed[at:end] = [False] * (end - at)
            at = end
        elif at + 1 < len(lines) and (introduces(lines[at].rstrip()) or asks_about(lines, at)):
            at = _after_lead_in(lines, at, typed, ends)
        else:
            at += 1
        if at >= stop and at < len(lines) and stop == document:
            at = document
    for start, stop in letter_spans(lines):
        typed[start:stop] = [False] * (stop - start)
    _leave_out_other_styles(lines, typed)
    _close_gaps(lines, typed)
    return typed


def _leave_out_other_styles(lines: list[str], typed: list[bool]) -> None:
    """Treat carefully written paragraphs as pasted if the user writes carelessly and refers to them.

    A careful writer begins sentences with capitals and ends them with full stops; the user's first or last paragraph
    shows that they do not, and points at the others: "add this to the docs", "what do you think of it".
    """
    blank = [-1, *(at for at, line in enumerate(lines) if not line.strip()), len(lines)]
    spans = [(before + 1, after) for before, after in pairwise(blank) if after - before > 1 and typed[before + 1]]
    if len(spans) < 2 or spans[0][1] - spans[0][0] > 1 or _STATED.search(lines[spans[0][0]]):
        return
    first, last = lines[spans[0][0]], lines[spans[-1][0]]
    is_behind = len(spans) > 2 and _is_careless(last) and _POINTS_BACK.search(last) and not _ASKED.search(first)
    if is_behind or (_is_careless(first) and _POINTS_ON.search(first)):
        for start, stop in spans[1:]:
            paragraph = "".join(lines[start:stop])
            if _is_careful(paragraph) and not begins_in_first_person(paragraph):
                typed[start:stop] = [False] * (stop - start)


def _is_careless(line: str) -> bool:
    """Return True if a line of more than two words starts in lower case, and not with a name, a path or code."""
    begin, *more = line.split()
    bare = begin.strip(",;:.!?").translate(_APOSTROPHES)
    return len(more) > 1 and bare.isalpha() and bare.islower()


def _starts_in_lower_case(text: str) -> bool:
    return next((letter for letter in text if letter.isalpha()), "").islower()


def _is_careful(paragraph: str) -> bool:
    """Return True if no sentence starts in lower case and the last one ends, with a full stop for example."""
    if not (_STATED.search(paragraph) and _SENTENCE_BEGINS.match(paragraph)):
        return False
    return not any(map(_starts_in_lower_case, (paragraph, *_BEHIND_STOP.split(paragraph)[1:])))


def _after_lead_in(lines: list[str], at: int, typed: list[bool], ends: _Ends) -> int:
    """Mark the text after a lead-in such as "here is the file:" as pasted, and return where it ends.

    It ends after a fence, a tag or quoted lines, or where the user writes in the first person again.
    """
    following = next((n for n in range(at + 1, len(lines)) if lines[n].strip()), len(lines))
    end = len(lines)
    if following < len(lines) and (_FENCE.match(lines[following]) or _TAG.match(lines[following])):
        end = _paste_end(lines, following, ends)
    elif following < len(lines) and _QUOTE.match(lines[following]) and not is_correspondence(lines[at]):
        end = next((n for n in range(following, len(lines)) if not _QUOTE.match(lines[n])), len(lines))
        end = end if end < len(lines) and not lines[end].strip() else len(lines)
    if end == len(lines):
        end = _first_person(lines, following + 1, ends)
    typed[at + 1 : end] = [False] * (end - at - 1)
    return end


def _first_person(lines: list[str], at: int, ends: _Ends) -> int:
    """Return the first line from `at` on that follows a blank line, begins in the first person, and isn't pasted."""
    while at < len(lines):
        if at and not lines[at - 1].strip() and begins_in_first_person(lines[at]):
            return at
        at = max(at + 1, _paste_end(lines, at, ends))
    return len(lines)


def _paste_end(lines: list[str], at: int, ends: _Ends) -> int:
    """Return the end of the paste that begins with line `at`; `at` itself if the line looks typed."""
    line = lines[at]
    if not line.strip():
        return at
    fence = _FENCE.match(line)
    if fence:
        return _fence_end(lines, at, fence.group(1))
    tag = _TAG.match(line)
    if tag and tag[0].endswith("/>"):  # It has no content; the user may write about it: "<Button/> is too big".
        if not line[tag.end() :].strip():
            return at + 1
    elif tag:
        if not tag[1] and at not in ends.tags and is_markup(tag[2]):
            # A page or component whose code is cut off. Its text is followed by the user's only where "I" shows it.
            return at if begins_sentence(line[tag.end() :]) else _first_person(lines, at + 1, ends)
        return at + 1 if tag[1] else ends.tags.get(at, len(lines))
    if _FRAME.match(line):
        return next((end + 1 for end in range(at, len(lines)) if _FRAME_END.match(lines[end])), len(lines))
    if _DIFF_HEAD.match(line):
        end = at + 1
        while end < len(lines) and (_DIFF_BODY.match(lines[end]) or _DIFF_HEAD.match(lines[end])):
            end += 1
        return end
    if _ROLE.match(line) or _SENT.match(line):
        return len(lines)
    if _QUOTE.match(line) or len(line) > MAX_TYPED_LINE_CHARS or _BLOB.search(line):
        return at + 1
    if _COMMENT.match(line):
        return _run_end(lines, at)
    if at in ends.changes:
        return ends.changes[at]
    rows = at
    while rows < len(lines) and _VALUES.match(lines[rows]):
        rows += 1
    if rows - at >= _TABLE_ROWS:
        return rows
    if (end := shape_end(lines, at)) > at:
        return end
    # A one-line prompt that begins with "#" is a note to remember, as it used to be in Claude Code; text pasted from a
    # root shell has more lines.
    if _LOG.match(line) or (_SHELL.match(line) and not (len(lines) == 1 and line.startswith("#"))):
        return _run_end(lines, at)
    closing = _closing(line)
    if closing and (end := _quote_end(lines, at, closing)) > at:
        return end
    if _is_code(lines, at):
        return _run_end(lines, at)
    if len(lines) > 1 and len(_GAP.findall(line)) > 1:
        return at + 1
    end = at
    while end < len(lines) and lines[end].startswith(("    ", "\t")):
        end += 1
    return end if end - at >= _INDENTED_LINES else at


def _fence_end(lines: list[str], at: int, fence: str) -> int:
    first = lines[at].lstrip()
    if first.count(fence) > 1 and len(first.rstrip()) > 2 * len(fence):
        return at + 1
    for end in range(at + 1, len(lines)):
        if lines[end].strip().startswith(fence):
            return end + 1
    return len(lines)


def _changed_ends(lines: list[str]) -> dict[int, int]:
    """Map each removed or added line in a diff to the end of its run of such lines; a list has only one sign."""
    ends: dict[int, int] = {}
    end, signs = len(lines), set[str]()
    for at in range(len(lines) - 1, -1, -1):
        sign = _CHANGED.match(lines[at])
        if sign is None:
            end, signs = at, set()
            continue
        signs.add(sign[1])
        if len(signs) > 1:
            ends[at] = end
    return ends


def _run_end(lines: list[str], at: int) -> int:
    """Return the end of a log, shell session or piece of code, which is at a blank line before an unindented line."""
    end = at + 1
    while end < len(lines):
        if not lines[end].strip():
            following = end
            while following < len(lines) and not lines[following].strip():
                following += 1
            if following == len(lines) or not lines[following].startswith(("  ", "\t")):
                return end
            end = following
        end += 1
    return min(end, len(lines))


def _closing(line: str) -> str:
    """Return the marks that close the quotation opened by a line; "" if it opens none."""
    if _OPEN_QUOTE.search(line):
        return '"'
    opening = _OPENING.search(_CLOSED.sub("", line))
    return _CLOSING[opening[0]] if opening else ""


def _quote_end(lines: list[str], at: int, closing: str) -> int:
    """Return the end of a quotation that opens in line `at` and spans several lines; `at` if it is never closed."""
    for end in range(at + 1, min(len(lines), at + _QUOTED_LINES)):
        if any(mark in lines[end] for mark in closing):
            return end + 1
    return at


def _is_code(lines: list[str], at: int) -> bool:
    if not _CODE.match(lines[at]):
        return False
    following = lines[at + 1] if at + 1 < len(lines) else ""
    return bool(following.strip() and _CODE.match(following)) or bool(
        re.match(r"\s*[\[{]\s*[\"'{\[]|\s*\w+\(.*\);\s*$", lines[at])
    )


def _close_gaps(lines: list[str], typed: list[bool]) -> None:
    """Treat a line of fewer than four characters between two pasted lines as pasted."""
    for at in range(1, len(lines) - 1):
        if typed[at] and not typed[at - 1] and not typed[at + 1] and len(lines[at].strip()) < 4:
            typed[at] = False


def _keep_outer_paragraphs(lines: list[str], typed: list[bool]) -> None:
    first = next((n for n, line in enumerate(lines) if n and not line.strip()), len(lines))
    last = next((n for n in range(len(lines) - 1, 0, -1) if not lines[n].strip() and n < len(lines) - 1), first)
    for at in range(first, max(last, first)):
        typed[at] = False


def _inside(line: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a typed line, and whether each is the user's own rather than relayed or quoted."""
    done = 0
    for quote in _QUOTATION.finditer(line):
        if len(quote.group()) < (_LONG_CORNERED if quote.group()[0] in "「『" else _LONG_QUOTATION):
            continue
        yield from _sentences(line[done : quote.start()])
        yield quote.group(), False
        done = quote.end()
    yield from _sentences(line[done:])


def _sentences(text: str) -> Iterator[tuple[str, bool]]:
    at = 0
    for cut in [m.end() for m in _SENTENCE_END.finditer(text)] + [len(text)]:
        relayed = relayed_in(text, at, cut)
        if relayed is None:
            yield text[at:cut], True
            at = cut
            continue
        start, end = relayed
        if start > at:
            yield text[at:start], True
        yield text[start:end], False
        at = end
        if at == len(text):
            return
