"""Tell what the user typed in a prompt from what was pasted, quoted or relayed.

When in doubt a line is not typed: the user repeats a rule that was missed, but a rule that somebody else
planted would be obeyed for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from engram.redaction.letters import letter_spans

#: A line longer than this is a paste, in characters.
MAX_TYPED_LINE_CHARS = 1_200
#: In a longer prompt only the first and last paragraphs may be typed, in characters.
MAX_TYPED_PROMPT_CHARS = 6_000
#: This many indented lines in a row are a paste.
_INDENTED_LINES = 3

_FENCE = re.compile(r"\s{0,12}(?:[-*+]\s+|\d+[.)]\s+)?(`{3,}|~{3,}|\"{3}|'{3})")
_TAG = re.compile(r"\s{0,40}<(/?)([A-Za-z!?][\w:.-]{0,60})(?=[\s>/])?[^<>]{0,400}>")
_ROLE = re.compile(
    r"(?i)[ \t]{0,40}(?:[#>*_\[\-=]{1,6}[ \t]{0,4})?(?:system|assistant|user|human|developer|claude|ai|tool|bot|"
    r"model|operator|admin(?:istrator)?|me|you|from|subject|to|date|author|commit|re|fwd|sent|"
    r"reply-to)\b(?:\s*(?:message|prompt|note|reminder|override|notice|result|output|instructions?))?\s*[\]*_]{0,3}\s*:"
)
_DIFF_HEAD = re.compile(r"(?:diff --git |@@ -|--- [\w/.\"]|\+\+\+ [\w/.\"]|index [0-9a-f]{5,}\.\.|Index: |={20,})")
_DIFF_BODY = re.compile(r"(?:[+\- \\@]|$)")
_LOG = re.compile(
    r"(?i)\s*(?:\[?\d{4}[-/]\d\d[-/]\d\d|\[?\d{1,2}:\d\d:\d\d|\[\s*(?:info|warn(?:ing)?|error|debug|fatal|trace|"
    r"notice|\d+[.:/\]])|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]* {1,2}\d{1,2} \d\d:|"
    r"(?:info|warn|warning|error|debug|fatal|trace|notice|panic|exception|failed|fail|err!?)\b\s*[:\[(|]|\w*(?:error|"
    r"exception|warning)\b\s*:|npm (?:err|warn)|traceback \(most|caused by|file \"[^\"]*\", line \d|at [\w$.<>\[\] "
    r"/]+\s?\(|at (?:async )?\S+:\d+|goroutine \d|\S+\.(?:py|js|mjs|ts|tsx|jsx|go|rs|java|c|cc|cpp|h|rb|php|cs|swift|"
    r"kt|ex|exs|vue):\d+|\S+\.go:\d|e\s{3}|={3,}|-{4,}|_{4,}|\*{4,}|[✓✗✘✔✖❌✅●⎿⏺│┌└├╭╰|])"
)
_SHELL = re.compile(r"\s*(?:[\w.@~:/\\-]{0,60}\s?(?:[$%#❯➜λ]|PS [A-Z]:\\\S*>)\s+\S|>>> |\.\.\. )")
_CODE = re.compile(
    r"\s*(?:import |from \S+ import |def |class |function |const |let |var |return\b|package |func |fn |pub |use "
    r"\w+::|#include|public |private |protected |static |async |export (?:default|const|function)|interface |type "
    r"\w+ =|enum |struct |impl |@\w+|if ?\(|for ?\(|while ?\(|else\b|elif |try:|except|}|{|\[|\"[\w-]+\"\s*:|"
    r"'[\w-]+'\s*:|[\w-]+:\s*$|- name:|//|/\*|\*/|<!--|\w+\s?=\s?\S|[\w.]+\(.*\)[;,]?\s*$)|.*(?:[;{]|=>|\);|\},|"
    r"\],)\s*$"
)
_QUOTE = re.compile(r"\s{0,8}(?:>|\|)")
_HEADING = re.compile(r"#{1,6} \S|[=-]{3,}\s*$|\s{0,6}(?:[-*+]\s+|\d+[.)]\s+)?\*\*[^*\n]{2,80}\*\*")
#: A request about something that follows in several lines.
_PURPOSE = re.compile(
    r"(?i)\b(?:to|please|and)\s+(?:understand|know|do|ensure|check|verify|make|add|change|fix|implement|create|"
    r"update|consider)(?:\s+(?:the following|this|it|that|sure))?\s*:\s*$"
)
_REQUEST = re.compile(
    r"(?i)[^\n]{0,40}\b(?:summari[sz]e|review|explain|translate|rewrite|proofread|improve|convert|parse|format|"
    r"analy[sz]e|check|read|look at|what does|what is|what do you|thoughts on|opinion on|is|are|about|have|got|"
    r"found)\b[^\n]{0,60}\b(?:this|these|below|following|attached)\b[^\n]{0,40}$"
)
#: This many lines of text after such a request are a paste.
_REQUESTED_LINES = 3
_LEAD_IN = re.compile(
    r"(?i)(?:\b(?:here(?:'s|’s| is| are| comes)(?! (?:my|our) (?:rules?|preferences?|conventions?|requirements?|"
    r"wishes))|below(?: is| are)?|attached|pasted?|quot(?:e|ing)|forwarded|copied|for reference|fyi|gives?|shows?|"
    r"prints?|returns?|contains?|reads?|outputs?|i (?:get|got|see|found)|what i (?:get|got|see)|context|"
    r"contents?)\b[^\n]{0,120}|\b(?:files?|outputs?|logs?|errors?|messages?|e-?mails?|issue|ticket|comments?|readme|"
    r"docs?|documentation|page|response|reply|transcript|trace|stack ?trace|text|snippet|code|review|feedback|spec|"
    r"plan|diff|patch|article|post|thread|slack|config|description|report|results?|notes? (?:from|of|in|by)|"
    r"instructions? (?:from|of|in|by)|policy|guide|prompt|rules? (?:from|of|in|by)|claude\.md|agents\.md)\b[^\n]{0,60}|"
    r"\b(?:says?|said|wrote|writes|replied|answered|told (?:me|us)|suggest(?:s|ed)|recommend(?:s|ed)|asks?|asked|"
    r"wants)\b[^\n]{0,40}):\s*$"
)
_RELAYED = re.compile(
    r"(?i)(?:\b(?:the|this|that|his|her|their|its|my|our|a|an|some)\s+(?:[\w.'-]+\s+){0,4}|"
    r"\b(?!(?:nobody|none)\b)(?<!\bno )[\w.-]+\s+)"
    r"(?:says|said|stated|states that|wrote(?=\s+(?:that|to)|[\s:,]+[\"'“])|tells|told(?= (?:me|us|him|her|them|you|"
    r"everyone|people|\w+ to\b))|claims|claimed|recommends|recommended|suggests|suggested|instructs|instructed|"
    r"demands|demanded|insists|insisted|advises|advised|mentions that|mentioned that|asks|asked|announced|goes|"
    r"reads[\s:,]+[\"'“])\b|\b(?:they|people|docs?|guidelines?|rules|colleagues?|developers|maintainers|instructions|"
    r"comments?|notes?)\s+(?:say|recommend|suggest|state|ask|require|tell|demand|insist)\b|\b(?:README|CONTRIBUTING|"
    r"CLAUDE|AGENTS|[\w./-]+\.(?:md|txt|rst|json|ya?ml|toml|py|ts|js|go|rs))\s*:\s|\baccording to (?!(?:our|my|this|"
    r"your|what i)\b)|\bquote:|\bas per (?!(?:our|my|your)\b)"
)
_SELF = re.compile(
    r"(?i)\b(?:i|we|i've|we've|i'd)\s+(?:\w+\s+)?(?:said|told|asked|mentioned|say|wrote|suggest\w*|recommend\w*|"
    r"state)\b"
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'“(])")
_QUOTATION = re.compile(r"\"[^\"\n]*(?:\"|$)|“[^”\n]*(?:”|$)|«[^»\n]*(?:»|$)|(?<!\w)'[^'\n]{24,2000}'(?!\w)")
#: A shorter quotation is a name or a word, in characters.
_LONG_QUOTATION = 16
_OPEN_QUOTE = re.compile(r"^[^\"“”]*(?:(?:^|[\s:(])\"(?=\w)|“)[^\"”]*$")
#: A quotation over more lines than this is an unpaired quotation mark.
_QUOTED_LINES = 60
_BLOB = re.compile(r"[A-Za-z0-9+/=_-]{120,}")


def split_typed(text: str) -> list[tuple[str, bool]]:
    """Split a prompt into segments, each with whether the user typed it; joined they give the prompt again.

    Not typed are code fences, quoted lines, tags and their content, diffs, logs, stack traces, shell sessions,
    code, indented blocks, e-mail and chat headers, documents with headings, everything after a line such as
    "here is the output:", very long lines, sentences that relay ("the README says …") and long quotations.
    """
    lines = text.splitlines(keepends=True)
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


def typed_text(text: str) -> str:
    """Return what the user typed of the prompt, joined by line breaks."""
    return "\n".join(s.strip() for s, is_typed in split_typed(text) if is_typed and s.strip())


def _judge_lines(lines: list[str]) -> list[bool]:
    typed = [True] * len(lines)
    headings = [n for n, line in enumerate(lines) if _HEADING.match(line)]
    document = headings[0] if len(headings) > 1 or (headings and len(lines) - headings[0] > 8) else len(lines)
    at = 0
    while at < len(lines):
        stop = document if at < document else len(lines)
        end = len(lines) if at >= document else _paste_end(lines, at)
        if end > at:
            end = max(end, at + 1)
            typed[at:end] = [False] * (end - at)
            at = end
        elif at + 1 < len(lines) and (_introduces(lines[at].rstrip()) or _asks_about(lines, at)):
            at = _after_lead_in(lines, at, typed)
        else:
            at += 1
        if at >= stop and at < len(lines) and stop == document:
            at = document
    for start, stop in letter_spans(lines):
        typed[start:stop] = [False] * (stop - start)
    _close_gaps(lines, typed)
    return typed


def _introduces(line: str) -> bool:
    return bool(_LEAD_IN.search(line)) and not _PURPOSE.search(line)


def _asks_about(lines: list[str], at: int) -> bool:
    """Return whether the line asks about a text that follows it after a blank line."""
    if lines[at + 1].strip() or not _REQUEST.match(lines[at].rstrip()):
        return False
    return sum(1 for line in lines[at + 1 :] if line.strip()) >= _REQUESTED_LINES


def _after_lead_in(lines: list[str], at: int, typed: list[bool]) -> int:
    """Return where the paste after "here is the file:" ends: only a fence ends it."""
    following = at + 1
    while following < len(lines) and not lines[following].strip():
        following += 1
    if following < len(lines) and (_FENCE.match(lines[following]) or _TAG.match(lines[following])):
        end = _paste_end(lines, following)
        if end < len(lines):
            typed[following:end] = [False] * (end - following)
            return end
    typed[at + 1 :] = [False] * (len(lines) - at - 1)
    return len(lines)


def _paste_end(lines: list[str], at: int) -> int:
    """Return where the paste that begins with line `at` ends; `at` if the line looks typed."""
    line = lines[at]
    if not line.strip():
        return at
    fence = _FENCE.match(line)
    if fence:
        return _fence_end(lines, at, fence.group(1))
    tag = _TAG.match(line)
    if tag:
        return _tag_end(lines, at, tag.group(2))
    if _DIFF_HEAD.match(line):
        end = at + 1
        while end < len(lines) and (_DIFF_BODY.match(lines[end]) or _DIFF_HEAD.match(lines[end])):
            end += 1
        return end
    if _ROLE.match(line):
        return len(lines)
    if _QUOTE.match(line) or len(line) > MAX_TYPED_LINE_CHARS or _BLOB.search(line):
        return at + 1
    if _LOG.match(line) or _SHELL.match(line):
        return _run_end(lines, at)
    if _OPEN_QUOTE.search(line):
        end = _quote_end(lines, at)
        if end > at:
            return end
    if _is_code(lines, at):
        return _run_end(lines, at)
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


def _tag_end(lines: list[str], at: int, name: str) -> int:
    close = f"</{name}"
    for end in range(at, len(lines)):
        if close in lines[end]:
            return end + 1
    return len(lines)


def _run_end(lines: list[str], at: int) -> int:
    """Return where a log, shell session or piece of code ends: at a blank line before a line without indentation."""
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


def _quote_end(lines: list[str], at: int) -> int:
    """Return where a quotation over several lines that opens in line `at` ends; `at` if it never closes."""
    for end in range(at + 1, min(len(lines), at + _QUOTED_LINES)):
        if '"' in lines[end] or "”" in lines[end]:
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
    """Take a line or two between two pastes for pasted, if they hold no sentence of their own."""
    for at in range(1, len(lines) - 1):
        if typed[at] and not typed[at - 1] and not typed[at + 1] and len(lines[at].strip()) < 4:
            typed[at] = False


def _keep_outer_paragraphs(lines: list[str], typed: list[bool]) -> None:
    first = next((n for n, line in enumerate(lines) if n and not line.strip()), len(lines))
    last = next((n for n in range(len(lines) - 1, 0, -1) if not lines[n].strip() and n < len(lines) - 1), first)
    for at in range(first, max(last, first)):
        typed[at] = False


def _inside(line: str) -> Iterator[tuple[str, bool]]:
    """Yield the sentences of a typed line; those that relay, and long quotations, are not the user's own."""
    done = 0
    for quote in _QUOTATION.finditer(line):
        if len(quote.group()) < _LONG_QUOTATION:
            continue
        yield from _sentences(line[done : quote.start()])
        yield quote.group(), False
        done = quote.end()
    yield from _sentences(line[done:])


def _sentences(text: str) -> Iterator[tuple[str, bool]]:
    at = 0
    for cut in [m.end() for m in _SENTENCE_END.finditer(text)] + [len(text)]:
        relayed = _RELAYED.search(text, at, cut)
        if relayed and not _SELF.search(text, at, cut):
            yield text[at : relayed.start()], True
            yield text[relayed.start() :], False
            return
        yield text[at:cut], True
        at = cut
