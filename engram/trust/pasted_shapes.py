"""Recognise pasted text of fixed shapes: SQL, results of tests, lists of commits or requirements, scenarios. Pure.

Unlike a log, text of such a shape ends where the shape does, so the line after it may be typed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from engram.system.lazy_regex import lazy_regex

#: Elements of web pages. They indicate that a person pasted code or is asking about it.
_MARKUP = frozenset(
    "a abbr article aside audio b blockquote body br button canvas circle code col dd details dialog div dl dt em "
    "fieldset figure footer form g h1 h2 h3 h4 h5 h6 head header hr html i iframe img input label legend li link main "
    "meta nav ol optgroup option p path picture pre rect script section select small span strong style sub summary sup "
    "svg table tbody td template textarea tfoot th thead title tr u ul video xml".split()
)
#: The name of a component, as in JSX, or of a type.
_COMPONENT = lazy_regex(r"[A-Z]|[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)*")
#: Words of a sentence, with no further tag.
_SENTENCE = lazy_regex(r"\s+[^\W\d_A-Z][^<>]*$")
#: The beginning of an SQL statement. In a sentence about SQL, two of its words are rarely in capitals.
_STATEMENT = lazy_regex(
    r"\s*(?:EXPLAIN\s+(?:\(?[A-Z, ]{3,40}\)?\s+)?)?(?:SELECT\b.*(?:\bFROM\b|,\s*$)|SELECT\s*(?:\*|\w+(?:\.\w+)?)?\s*$|"
    r"INSERT\s+(?:OR \w+ )?INTO\b|UPDATE\s+[\w.\"`]+(?:\s+SET\b|\s*$)|DELETE\s+FROM\b|"
    r"(?:CREATE|ALTER|DROP)\s+(?:OR REPLACE |UNIQUE |TEMP(?:ORARY)? |MATERIALIZED )*(?:TABLE|INDEX|VIEW|TRIGGER|"
    r"FUNCTION|SCHEMA|DATABASE|TYPE|ROLE|USER|SEQUENCE|EXTENSION)\b|WITH\s+\w+\s+AS\s*\(|TRUNCATE\s+TABLE\b|GRANT\b.*\bON\b|"
    r"PRAGMA\s+\w+)"
)
#: A text in quotation marks and a comment of a statement, and what makes the rest of such a line a sentence about SQL:
#: "DROP TABLE is never allowed".
_QUOTED_IN_STATEMENT = lazy_regex(r"'[^']*'|\"[^\"]*\"|`[^`]*`|--.*")
_IS_ABOUT_SQL = lazy_regex(r"\b(?:is|are|must|may|should|shall|needs?|never|always|statements?|queries)\b")
_STATEMENT_END = lazy_regex(r";\s*(?:--.*)?$")
#: An ``UPDATE`` without the rest of the statement, which may be part of a sentence, and the line that must follow it.
_BARE_UPDATE = lazy_regex(r"\s*UPDATE\s+\S+\s*$")
_SET = lazy_regex(r"\s*SET\b")
#: A line with the result of a test, a file or a target, and nothing else.
_RESULT = lazy_regex(
    r"\s*(?:---\s)?(?:PASS|FAIL|SKIP|XFAIL|XPASS|PASSED|FAILED|SKIPPED|ERROR|not ok|ok)(?:\s*[:\]]?\s+)"
    r"(?:\d+ - \S.*|\S*[./:]\S+(?: [>›] .+)?)(?:\s+\(?[\d.]+ ?m?s\)?)?\s*$"
)
#: A line of ``git log --oneline`` or ``git rebase -i``, and a line that begins with the number of a requirement or
#: ticket, but not with the name of a standard. One such line may be typed.
_COMMIT = lazy_regex(
    r"[\s*|\\/]{0,12}(?:(?:pick|squash|fixup|reword|drop|edit) )?(?=\w*\d)[0-9a-f]{7,12} (?:\([^()]*\) )?\S"
)
_NUMBERED = lazy_regex(
    r"\s*(?:[-*]\s)?\[?(?!(?:AES|ECMA|IEEE|ISO|PEP|RFC|RSA|SHA|TLS|UTF)-)[A-Z][A-Z\d]{1,9}-\d{1,6}\b\]?[:.)–—-]?\s+\S"
)
_ROWS = 2
#: The heading of a scenario for an acceptance test, and its steps.
_SCENARIO = lazy_regex(r"\s*(?:Feature|Background|Scenario(?: Outline)?):\s*\S?")
_STEP = lazy_regex(r"\s*(?:(?:Given|When|Then|And|But|Examples?:?)\b|\*\s|\||@\w)|\s{2,}\S")
_IS_STEP = lazy_regex(r"\s*(?:Given|When|Then|@\w)\b|\s*(?:Scenario|Background)\b")


def is_markup(name: str) -> bool:
    """Return True for the name of an element of a web page or of a component, rather than of a program's own tags."""
    return name.lower() in _MARKUP or _COMPONENT.fullmatch(name) is not None


def begins_sentence(behind: str) -> bool:
    """Return True if the text behind a tag makes the tag the subject of a sentence: "<div> never closes here"."""
    return _SENTENCE.match(behind) is not None


def shape_end(lines: Sequence[str], at: int) -> int:
    """Return the line after a pasted text of a fixed shape that begins with line ``at``; ``at`` if none does."""
    line = lines[at]
    if _STATEMENT.match(line) and not _is_about_sql(line) and (end := _end_of_statement(lines, at)) > at:
        return end
    if _RESULT.match(line) and len(lines) > 1:  # a prompt such as "ok main.py" is an answer
        return _after_indented(lines, at + 1)
    for rows in (_COMMIT, _NUMBERED):
        end = _end_of_rows(lines, at, rows)
        if end - at >= _ROWS:
            return end
    following = lines[at + 1] if at + 1 < len(lines) else ""
    if _SCENARIO.match(line) and _IS_STEP.match(following):
        end = at + 1
        while end < len(lines) and (_STEP.match(lines[end]) or _SCENARIO.match(lines[end])):
            end += 1
        return end
    return at


def _is_about_sql(line: str) -> bool:
    """Return True if a line that begins like a statement is a sentence."""
    return _IS_ABOUT_SQL.search(_QUOTED_IN_STATEMENT.sub("", line)) is not None


def _end_of_statement(lines: Sequence[str], at: int) -> int:
    """Return the line after an SQL statement and the indented lines below it, such as its plan.

    A statement without a semicolon ends at a blank line.
    """
    is_bare = _BARE_UPDATE.match(lines[at]) is not None
    if is_bare and not any(_SET.match(line) for line in lines[at + 1 : at + 2]):
        return at
    end = at
    while end < len(lines) and lines[end].strip():
        end += 1
        if _STATEMENT_END.search(lines[end - 1]):
            return _after_indented(lines, end)
    return end


def _end_of_rows(lines: Sequence[str], at: int, row: re.Pattern[str]) -> int:
    end = at
    while end < len(lines) and row.match(lines[end]):
        end += 1
    return end


def _after_indented(lines: Sequence[str], at: int) -> int:
    """Return the first line from ``at`` on that is not indented."""
    while at < len(lines) and lines[at].strip() and lines[at][:1].isspace():
        at += 1
    return at
