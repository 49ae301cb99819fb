"""What the sessions that answer best were about: the summary that a language model keeps of each.

A memory tells one thing and a passage a few sentences; what a session came to and left open stands in neither.
Sessions that no model distilled have no summary.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from engram.models.judgements import judged_of_session
from engram.models.sessions import SessionRow, sessions_of
from engram.models.transaction import Reader
from engram.redaction.suspicion import why_suspect
from engram.search.hits import Hit
from engram.search.public_hits import Origin, PublicHit
from engram.search.question.query import Query
from engram.text.summary_words import words_of

#: Sessions whose summary is shown.
MAX_SESSIONS = 2
#: Minimum share of a judged memory's words with which a summary repeats it.
MIN_REPEATED_SHARE = 0.6


def session_summaries(store: Reader, query: Query, passages: Sequence[PublicHit]) -> list[PublicHit]:
    """Return the summaries of the sessions with the best passages, the best first.

    Args:
        store: the open memory.
        query: the question. Sessions of another project than its own are left out, and those whose summary repeats what
            was judged wrong or outdated.
        passages: the passages that answer it, the best first.
    """
    best: dict[str, PublicHit] = {}
    for passage in passages:
        if passage.session_id:
            best.setdefault(passage.session_id, passage)
    sessions = sessions_of(store, best)
    able = (session_id for session_id in best if session_id in sessions and _may_show(sessions[session_id], query))
    shown = (session_id for session_id in able if not _repeats_judged(store, sessions[session_id]))
    return [_hit(sessions[session_id], best[session_id]) for session_id in islice(shown, MAX_SESSIONS)]


def _repeats_judged(store: Reader, session: SessionRow) -> bool:
    """True if the summary says a memory of the session that was judged wrong or outdated."""
    said = words_of(session.rolling_summary)
    judged = (words_of(memory.episode.summary) for memory in judged_of_session(store, session.id))
    return any(len(words & said) >= MIN_REPEATED_SHARE * len(words) for words in judged if words)


def _may_show(session: SessionRow, query: Query) -> bool:
    is_own = query.project_id is None or session.own_project_id == query.project_id
    # A model wrote it, of what the assistant said and what commands printed.
    text = session.rolling_summary
    return is_own and bool(text) and why_suspect(text, is_typed=False, is_assistant=True) is None


def _hit(session: SessionRow, passage: PublicHit) -> PublicHit:
    hit = Hit(
        id=f"session#{session.session_id}",
        kind="session",
        text=session.rolling_summary,
        score=0.0,
        parts={},
        project=passage.project,
        created_at_ms=session.last_at_ms,
        session_id=session.session_id,
    )
    return PublicHit.of(hit, Origin(resume=passage.origin.resume, pull_request=passage.origin.pull_request))
