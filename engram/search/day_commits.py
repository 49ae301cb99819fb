"""List the commits of the days that a question names: "what was the last thing committed on 23 February?".

Ranking takes into account how close a passage is in time, but no passage says which commit was first or last, or how
many there were.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from engram.models.engine.transaction import Reader
from engram.models.sessions.failures_and_commits import Commit, commits_between
from engram.search.hit_lines import COMMIT_CHARACTERS, count_words
from engram.search.hits import Hit, PublicHit
from engram.search.named_times import DateRange, parse_date_range
from engram.search.question import Query
from engram.system.clock import DAY_MS, day_of
from engram.system.lazy_regex import lazy_regex
from engram.text.words import stems, topic_words
from engram.trust.suspicion import why_suspect

#: Longest period for which commits are listed, in days.
MAX_RANGE_DAYS = 10
#: Maximum number of lists shown (one for each day and project); the latest are kept.
MAX_DAYS = 3
#: Maximum number of words in one list; the earliest commits are left out.
MAX_DAY_WORDS = 60

_START = "committed, in this order: "
_LEFT_OUT = "… "


#: A question that is about the commits of a day, whatever else it names.
_ASKS_COMMITS = lazy_regex(r"\bcommit|\bpush(?:ed|es)?\b|\bmerged?\b|\blanded\b", re.IGNORECASE)
_MONTHS = stems(
    "january february march april may june july august september october november december jan feb mar apr jun jul aug "
    "sep sept oct nov dec".split()
)
#: Words of a question that name a time or any work.
_ANY_WORK = _MONTHS | stems(
    "day days week weeks month yesterday today morning evening night noon ago last first next previous recent monday "
    "tuesday wednesday thursday friday saturday sunday start end begin middle early late mid "
    "change changes changed decide decided decision work worked working thing things task tasks happen happened done "
    "finish finished finally final add added build built fix fixed session sessions project commit commits "
    "committed".split()
)


def day_logs(store: Reader, query: Query) -> list[PublicHit]:
    """Return a hit that lists the commits, for each project and each day that a question names; earliest day first.

    If the question names a subject and does not ask about commits, the days on which no commit names it are left out.
    """
    now_ms = store.now_ms() if query.now_ms is None else query.now_ms
    date_range = parse_date_range(query.text, now_ms)
    if date_range is None or date_range.stop_ms - date_range.start_ms > MAX_RANGE_DAYS * DAY_MS:
        return []
    for start_ms, stop_ms in date_range.occurrences(now_ms):
        commits = [
            commit
            for commit in commits_between(store, query.project_id, start_ms, stop_ms)
            # The subject was read from a command's output, but the assistant wrote it.
            if commit.subject and why_suspect(commit.subject, is_typed=False, is_assistant=True) is None
        ]
        if commits:
            commits.sort(key=lambda commit: (*_day_and_project(commit), commit.turn_at_ms))
            days = [(of_day, list(made)) for of_day, made in groupby(commits, _day_and_project)]
            days = [(of_day, made) for of_day, made in days if _is_about(made, query.text)]
            return [_hit(day, project, made) for (day, project), made in days[-MAX_DAYS:]]
    return []


def _is_about(commits: Sequence[Commit], question: str) -> bool:
    """Return True if a question asks about any commits, or about a subject that one of these commits names."""
    subject = _subject_of(question)
    if not subject or _ASKS_COMMITS.search(question):
        return True
    return any(subject & stems(topic_words(commit.subject)) for commit in commits)


def of_named_time(hits: Sequence[Hit], question: str, time: DateRange | None) -> list[Hit]:
    """Return only the hits from the time that a question names, if it names nothing else; otherwise return all hits.

    If the question also names a subject, what became of it may have been said later. A text that has the question's
    date or month in the same words is kept, too: it may be about that day, or a person called April.
    """
    if time is None or _subject_of(question):
        return list(hits)
    date = {stem for stem in stems(topic_words(question)) if stem in _MONTHS or stem[:1].isdigit()}
    is_date = bool(date & _MONTHS) or sum(map(len, date)) > len("2026")
    return [
        hit
        for hit in hits
        if not time.distance_days(hit.created_at_ms) or (is_date and date <= stems(topic_words(hit.text)))
    ]


def _subject_of(question: str) -> set[str]:
    """Return the stems of a question's words that name neither a time nor any work."""
    return {stem for stem in stems(topic_words(question)) - _ANY_WORK if not stem.isdigit()}


def _day_and_project(commit: Commit) -> tuple[str, str]:
    return day_of(commit.turn_at_ms), commit.project


def _hit(day: str, project: str, commits: Sequence[Commit]) -> PublicHit:
    entries = list(_commit_entries(commits))
    words, kept = count_words(_START, _LEFT_OUT), 0
    while kept < len(entries) and words + count_words(entries[-kept - 1]) <= MAX_DAY_WORDS:
        kept += 1
        words += count_words(entries[-kept])
    # A single subject always fits: subjects are truncated when they are stored.
    kept = max(kept, 1)
    text = _START + (_LEFT_OUT if kept < len(entries) else "") + "; ".join(entries[-kept:])
    return PublicHit.of(
        Hit(
            id="#".join(filter(None, ("commits", day, project))),
            kind="commits",
            text=text,
            score=0.0,
            parts={},
            project=project,
            created_at_ms=commits[-1].turn_at_ms,
        )
    )


def _commit_entries(commits: Sequence[Commit]) -> Iterable[str]:
    """Yield one entry per subject, at the position of its last commit. Amending a commit repeats its subject."""
    last = {commit.subject: commit for commit in commits}
    counts = {subject: sum(commit.subject == subject and bool(commit.sha) for commit in commits) for subject in last}
    for commit in commits:
        if commit is last[commit.subject]:
            again = f" ({counts[commit.subject]} commits)" if counts[commit.subject] > 1 else ""
            yield f"{commit.sha[:COMMIT_CHARACTERS]} {commit.subject}{again}".lstrip()
