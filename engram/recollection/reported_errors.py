"""Find the errors that people reported in prompts, and how the assistant answered, for ``engram fix``.

Unlike the fixes of ``past_fixes``, nothing proves that these answers helped: no command failed and later passed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from engram.enums import Kind
from engram.models.engine.transaction import Store
from engram.models.search.fulltext import search_passages
from engram.models.sessions.failures_and_commits import turns_from
from engram.models.sessions.passage_rows import PassageRow, barred_quotations, passage_rows
from engram.recollection.branch_state import resume_of_id
from engram.recollection.past_fixes import MAX_TURNS, MIN_SHARED_LINES, PastFix, lines_of_error, name_of
from engram.search.passages.followed import end_of_turn
from engram.search.question import Coverage, coverage_of_words
from engram.system.lazy_regex import lazy_regex
from engram.text.shell import error_keys
from engram.transcripts.turns import OPENING_ROLES, Role

#: Maximum number of passages to examine for a line of an error, best first.
MAX_PASSAGES = 50
#: Roles of texts in which errors are reported: prompts, and what was pasted into them.
_REPORTING = (*OPENING_ROLES, Role.CONTEXT)
_SIGNS = lazy_regex(r"^\W+|\W+$")
_LETTERS = lazy_regex(r"[^\W\d_]+")
#: What the text index has of a line: words, and names with an underscore as a whole, since not all parts of a name.
_INDEXED = lazy_regex(r"[^\W_]+(?:_+[^\W_]+)+|[^\W\d_]+")


def find_answers(
    store: Store,
    error: str,
    project_ids: Collection[int],
    *,
    but: Collection[PastFix] = (),
    branches: Collection[str] = (),
) -> list[PastFix]:
    """Return the assistant's final answers to prompts that contain an error, best match first.

    Args:
        but: fixes whose sessions are left out.
    """
    lines = [line for line in lines_of_error(error) if error_keys((line,), branches)]
    shared: Counter[int] = Counter()
    for project_id in project_ids:
        for line in lines:
            shared.update(list(dict.fromkeys(row.turn_id for row in _reports(store, line, project_id))))
    if not shared:
        return []
    wanted = coverage_of_words(error)
    _, barred = barred_quotations(store)
    answers = [
        _answer(store, turn_id, error, number / len(lines), wanted, barred)
        for turn_id, number in shared.items()
        if number >= MIN_SHARED_LINES * len(lines)
    ]
    known = {fix.session_id for fix in but}
    by_id = {answer.id: answer for answer in answers if answer is not None and answer.session_id not in known}
    return sorted(by_id.values(), key=lambda answer: (-answer.match, -answer.at_ms))


def is_stated(line: str, text: str) -> bool:
    """Return True if a text contains the words of a line of an error, in order.

    Numbers, punctuation and line breaks are ignored, and a few more words may be in between, such as the name of a
    file.
    """
    wanted, words = _words(line), _words(text)
    if not wanted:
        return False
    longest = len(wanted) + len(wanted) // 2
    for start, word in enumerate(words):
        if word == wanted[0]:
            following = iter(words[start : start + longest])
            if all(word in following for word in wanted):
                return True
    return False


def _words(text: str) -> list[str]:
    words = (_SIGNS.sub("", word).lower() for word in text.split())
    return [word for word in words if _LETTERS.search(word)]


def _reports(store: Store, line: str, project_id: int) -> Iterator[PassageRow]:
    """Yield the passages of prompts that contain a line of an error."""
    terms = tuple(dict.fromkeys(_INDEXED.findall(line)))
    found = search_passages(store, [terms], MAX_PASSAGES, project_id=project_id, weights=(1.0, 0.0, 0.0))
    for row in passage_rows(store, [row_id for row_id, _ in found]).values():
        if row.role in _REPORTING and is_stated(line, row.text):
            yield row


def _answer(
    store: Store, turn_id: int, error: str, match: float, wanted: Coverage, barred: Collection[str]
) -> PastFix | None:
    """Return the assistant's final answer in the turn of a report, or else in one of the turns that follow."""
    for stored in turns_from(store, turn_id, MAX_TURNS):
        if end := end_of_turn(stored.turn, error, wanted, barred):
            return PastFix(
                id=end.quotation_id,
                project=name_of(store, stored.project_id),
                kind=Kind.FIX,
                text=end.text,
                words="",
                at_ms=end.at_ms,
                session_id=stored.turn.session_id,
                resume=resume_of_id(store, stored.turn.session_id),
                match=match,
                is_proven=False,
            )
    return None
